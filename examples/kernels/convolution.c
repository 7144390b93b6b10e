/* One instance per element of y: a 3x3 convolution, with zeros around the image. */
#pragma laminar instances batch * outs * rows * cols

void kernel(int i, int n, int batch, int ins, int outs, int rows, int cols,
            const float x[batch][ins][rows][cols], const float weight[outs][ins][3][3], const float bias[outs],
            float y[batch][outs][rows][cols]) {
    int c = i % cols, r = i / cols % rows, to = i / (cols * rows) % outs, image = i / (cols * rows * outs);
    float sum = bias[to];
    for (int k = 0; k < ins; k++) {
        for (int dr = 0; dr < 3; dr++) {
            for (int dc = 0; dc < 3; dc++) {
                int row = r + dr - 1, col = c + dc - 1;
                if (row < 0 || row >= rows || col < 0 || col >= cols) continue;
                sum += weight[to][k][dr][dc] * x[image][k][row][col];
            }
        }
    }
    y[image][to][r][c] = sum;
}
