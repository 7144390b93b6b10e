"""Testing: contract suites that are shipped, so that a plug-in can prove itself with the tests of the product. Needs pytest.

    compressor_contract.py   what any way to make gradients small must do
    mirror_contract.py   what any place that files are fetched from must do
    remote_contract.py       what any place that keeps layers for others must do; and small layers to try it with
    source_contract.py       what any source of data must do
    spark_cluster.py         a real standalone cluster of Spark on loopback

Not here: tests of the product itself (tests/), the fake clock (core/clock.py).
"""
