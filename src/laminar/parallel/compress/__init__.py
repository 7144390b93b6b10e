"""Compress: gradients as small packets, and back. Encoding may keep a residual; decoding trusts nobody.

Read in this order: layout.py (a gradient is one flat tensor of named parts), packet.py (the bytes on the wire), protocol.py (what a
compressor is), make.py (from a spec to a compressor; what may be written is in train/compression.py). The compressors:

    dense.py      none (float32) and fp16
    int8.py       blocks with a scale each, and error feedback
    topk.py       the largest values, the rest is kept for later
    dgc.py        Deep Gradient Compression
    powersgd.py   low rank, as packets or for all-reduce; low_rank.py is the arithmetic of both

What these stand on: sparse.py (a packet of some positions, and sums of many), largest.py (which positions), indices.py (positions in
few bytes), halves.py (float16 without overflow), checks.py (gradients and states that do not fit).
Not here: sockets, shared memory and rounds, which are a strategy's; whose packet is believed, which is the grid's.
"""
