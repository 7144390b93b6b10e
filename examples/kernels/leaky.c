/* One instance per element: what is negative is made small. */
void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
