/* The adapter between Syncline and the old code, which gives names to the coefficients. */
#include <stddef.h>

void lk23(int jn, int kn, int ld, double *za, double *zr, double *zb, double *zu, double *zv, double *zz);

void lk23_block(double *za, const double *const *c, size_t rows, size_t cols, void *context)
{
    (void)context;
    /* The old code has no const, but does not write its coefficients. */
    lk23((int)rows, (int)cols, (int)cols, za, (double *)c[0], (double *)c[1], (double *)c[2], (double *)c[3],
         (double *)c[4]);
}
