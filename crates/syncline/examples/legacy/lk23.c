/* Livermore kernel 23 over a matrix of jn rows, ld values apart, and kn columns: old code, which
 * must not be changed. */
void lk23(int jn, int kn, int ld, double *za, double *zr, double *zb, double *zu, double *zv, double *zz)
{
    int j, k;
    double qa;

    for (j = 1; j < jn - 1; j++) {
        for (k = 1; k < kn - 1; k++) {
            qa = za[(j + 1) * ld + k] * zr[j * ld + k] + za[(j - 1) * ld + k] * zb[j * ld + k]
               + za[j * ld + k + 1] * zu[j * ld + k] + za[j * ld + k - 1] * zv[j * ld + k] + zz[j * ld + k];
            za[j * ld + k] += 0.175 * (qa - za[j * ld + k]);
        }
    }
}
