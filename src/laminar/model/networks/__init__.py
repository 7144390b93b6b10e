"""Networks by name: `laminar:alexnet`, `vgg16`, `resnet50`, `resnet152`, `inceptionv3`, `tcnn`, `lstm`, `transformer`.

Read in this order: parts.py (what they share), alexnet.py (and T-CNN, which is made of it), vgg.py, resnet.py, inception.py, series.py
(LSTM and transformer, which classify series). Every factory takes `classes` and `input_shape`, which a layer's data fill in, and `width`;
every network has the modules `features` and `head`, as those of builtin.py. At width = 1.0 and the paper's input they have as many
parameters as the papers' networks; tests/torch/model/test_networks.py counts them.

Each network is a part of the keys of layers that use it, by the definitions that its factory reaches below `laminar/model`. Imports between
these modules are relative, because that is how they are followed; what is imported from the rest of Laminar is in no key.
"""
