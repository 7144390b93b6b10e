#define B 2048

// Of all beginnings of x and y the length of their longest common subsequence, by blocks of B x B; n is a multiple of B.
void block(int n, int r, int c, const int x[n], const int y[n], inout int l[n + 1][n + 1]) {
    for (int i = r; i < r + B; i++) {
        for (int j = c; j < c + B; j++) {
            int up = l[i][j + 1];
            int left = l[i + 1][j];
            int longest = up > left ? up : left;
            l[i + 1][j + 1] = x[i] == y[j] ? l[i][j] + 1 : longest;
        }
    }
}

#pragma laminar instances 1
void kernel(int i, int count, int n, const int x[n], const int y[n], out int l[n + 1][n + 1]) {
    for (int r = 0; r < n; r += B)
        for (int c = 0; c < n; c += B) block(n, r, c, x, y, l);
}
