"""Kernels that several tests call, each in float and, by `double`, in double."""

from __future__ import annotations

import re

LEAKY = """void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""
SOFTMAX = """void kernel(int i, int rows, int cols, const float x[rows][cols], float y[rows][cols]) {
    float top = x[i][0], sum = 0;
    for (int k = 1; k < cols; k++) if (x[i][k] > top) top = x[i][k];
    for (int k = 0; k < cols; k++) sum += expf(x[i][k] - top);
    for (int k = 0; k < cols; k++) y[i][k] = expf(x[i][k] - top) / sum;
}
"""
CONVOLUTION = """#pragma laminar instances batch * outs * rows * cols
void kernel(int i, int n, int batch, int ins, int outs, int rows, int cols, const float x[batch][ins][rows][cols],
            const float weight[outs][ins][3][3], const float bias[outs], float y[batch][outs][rows][cols]) {
    int c = i % cols, r = i / cols % rows, to = i / (cols * rows) % outs, image = i / (cols * rows * outs);
    float sum = bias[to];
    for (int k = 0; k < ins; k++)
        for (int dr = 0; dr < 3; dr++)
            for (int dc = 0; dc < 3; dc++) {
                int row = r + dr - 1, col = c + dc - 1;
                if (row < 0 || row >= rows || col < 0 || col >= cols) continue;
                sum += weight[to][k][dr][dc] * x[image][k][row][col];
            }
    y[image][to][r][c] = sum;
}
"""
MATMUL = """#pragma laminar instances m * p
void kernel(int i, int n, int m, int l, int p, const float a[m][l], const float b[l][p], float c[m][p]) {
    int r = i / p, s = i % p;
    float sum = 0;
    for (int k = 0; k < l; k++) sum += a[r][k] * b[k][s];
    c[r][s] = sum;
}
"""
POOL = """#pragma laminar instances images * (rows / 2) * (cols / 2)
void kernel(int i, int n, int images, int rows, int cols, const float x[images][rows][cols], float y[images][rows / 2][cols / 2]) {
    int c = i % (cols / 2), r = i / (cols / 2) % (rows / 2), image = i / (cols / 2 * (rows / 2));
    float m = -INFINITY;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            float v = x[image][2 * r + a][2 * c + b];
            if (v > m) m = v;
        }
    y[image][r][c] = m;
}
"""
BOTH = "void kernel(int i, int n, const float x[n], float a[n], float y[n]) { a[i] = a[i] * x[i]; y[i] = sinf(a[i]); }"


def double(text: str) -> str:
    """With doubles in place of floats."""
    return re.sub(r"(\d)f\b", r"\1", text.replace("float", "double").replace("expf", "exp").replace("sinf", "sin"))
