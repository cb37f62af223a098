/* The plain double loop of Livermore kernel 23 over mapped row-major files with MADV_SEQUENTIAL:
 * the simplest program for the sweep. Updates DIR/za.work in place (a copy of za.npy); reads zr,
 * zb, zu, zv, zz .npy.
 *
 *   cc -O3 -march=native -ffp-contract=off -o plain_mapped plain_mapped.c
 *   plain_mapped DIR SIDE ITERATIONS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double *map(const char *dir, const char *name, size_t n, int prot)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, prot & PROT_WRITE ? O_RDWR : O_RDONLY);
    struct stat s;
    if (fd < 0 || fstat(fd, &s)) {
        perror(path);
        exit(1);
    }
    char *p = mmap(NULL, s.st_size, prot, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    madvise(p, s.st_size, MADV_SEQUENTIAL);
    return (double *)(p + (s.st_size - n * n * sizeof(double))); /* behind the header */
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: plain_mapped DIR SIDE ITERATIONS\n");
        return 2;
    }
    const size_t n = strtoul(argv[2], NULL, 10);
    const int iterations = atoi(argv[3]);
    double *za = map(argv[1], "za.work", n, PROT_READ | PROT_WRITE);
    const double *zr = map(argv[1], "zr.npy", n, PROT_READ), *zb = map(argv[1], "zb.npy", n, PROT_READ);
    const double *zu = map(argv[1], "zu.npy", n, PROT_READ), *zv = map(argv[1], "zv.npy", n, PROT_READ);
    const double *zz = map(argv[1], "zz.npy", n, PROT_READ);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int it = 0; it < iterations; it++)
        for (size_t j = 1; j + 1 < n; j++)
            for (size_t k = 1; k + 1 < n; k++) {
                const size_t i = j * n + k;
                const double qa =
                    za[i + n] * zr[i] + za[i - n] * zb[i] + za[i + 1] * zu[i] + za[i - 1] * zv[i] + zz[i];
                za[i] += 0.175 * (qa - za[i]);
            }
    clock_gettime(CLOCK_MONOTONIC, &b);
    const double s = b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec);
    printf("%.2f s/it\n", s / iterations);
    return 0;
}
