#define B 96

// The lower triangle of L with L L' = a, by blocks of B x B; n is a multiple of B. Blocks that leave each other alone run at once.
void factor(int n, int k, inout double a[n][n]) {
    for (int j = k; j < k + B; j++) {
        double d = a[j][j];
        for (int p = k; p < j; p++) d -= a[j][p] * a[j][p];
        a[j][j] = sqrt(d);
        for (int r = j + 1; r < k + B; r++) {
            double s = a[r][j];
            for (int p = k; p < j; p++) s -= a[r][p] * a[j][p];
            a[r][j] = s / a[j][j];
        }
    }
}

void solve(int n, int k, int i, inout double a[n][n]) {
    for (int r = i; r < i + B; r++) {
        for (int j = k; j < k + B; j++) {
            double s = a[r][j];
            for (int p = k; p < j; p++) s -= a[r][p] * a[j][p];
            a[r][j] = s / a[j][j];
        }
    }
}

void update(int n, int k, int i, int j, inout double a[n][n]) {
    for (int r = i; r < i + B; r++) {
        for (int c = j; c < j + B; c++) {
            double s = a[r][c];
            for (int p = k; p < k + B; p++) s -= a[r][p] * a[c][p];
            a[r][c] = s;
        }
    }
}

#pragma laminar instances 1
void kernel(int i, int count, int n, inout double a[n][n]) {
    for (int k = 0; k < n; k += B) {
        factor(n, k, a);
        for (int r = k + B; r < n; r += B) solve(n, k, r, a);
        for (int r = k + B; r < n; r += B)
            for (int c = k + B; c <= r; c += B) update(n, k, r, c, a);
    }
}
