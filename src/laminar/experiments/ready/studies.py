"""The papers whose figures the ready experiments stand beside."""

from __future__ import annotations

from typing import Final

PRACTICE: Final = "Balmforth, Fu, Kam, Parallel Machine Learning: Fashion-MNIST, TensorFlow, i7-8850H"
FLOWERS: Final = "Balmforth, Fu, Kam, Parallel Machine Learning: 2,936 flower photographs, TensorFlow, i7-8850H and a cloud"
LAYERS: Final = "Varykhanov et al., Methods for Speeding Up the Retraining of Neural Networks: MNIST, four Spark nodes; no figures printed"
GRID: Final = "Kurochkin, The deep distributed learning implementations with a large dataset on the desktop grid: BOINC"
ENVIRONMENT: Final = "Khamkar, A distributed environment; no figures are printed"
GRADIENTS: Final = "Olsen, West, Thomasma, Parallelising gradient descent; no figures are printed"
