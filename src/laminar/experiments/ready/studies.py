"""The founding documents, and which of them each ready experiment stands beside. A page of the docs lists what they claim."""

from __future__ import annotations

from typing import Final

# By number: authors, and the title as it is printed. Of the third no printed title is known here, only what it is about.
DOCUMENTS: Final = {
    1: ("Varykhanov et al.", "Methods for Speeding Up the Retraining of Neural Networks"),
    2: ("Balmforth, Fu, Kam", "Parallel Machine Learning"),
    3: ("Khamkar", "a distributed environment"),
    4: ("Olsen, West, Thomasma", "Neural Network Parallelization"),
    5: ("Kurochkin", "The deep distributed learning implementations with a large dataset on the desktop grid"),
}


def cited(number: int) -> str:
    return ", ".join(DOCUMENTS[number])


PRACTICE: Final = f"{cited(2)}: Fashion-MNIST, TensorFlow, i7-8850H"
FLOWERS: Final = f"{cited(2)}: 2,936 flower photographs, TensorFlow, i7-8850H and a cloud"
LAYERS: Final = f"{cited(1)}: MNIST, four Spark nodes; no figures printed"
GRID: Final = f"{cited(5)}: BOINC"
ENVIRONMENT: Final = f"{cited(3)}; no figures are printed"
GRADIENTS: Final = f"{cited(4)}; no figures are printed"
APART: Final = f"{cited(3)}, and {cited(4)}; no figures are printed"
