/* The bounds of one import. */
#include "rootfs/oci/budget.h"

#include <errno.h>
#include <inttypes.h>

static int too_large(const struct budget *budget, struct error *err)
{
        return error_set(
                err, EFBIG,
                "the image is larger than %" PRIu64
                " MiB unpacked: if that is right, set CLOISTER_IMAGE_MAX to a larger size, such as 40GiB",
                budget->bytes_max >> 20);
}

int budget_write(struct budget *budget, uint64_t bytes, struct error *err)
{
        if (bytes > budget->bytes_max - budget->written)
                return too_large(budget, err);
        budget->written += bytes;
        return 0;
}

int budget_entry(struct budget *budget, struct error *err)
{
        if (budget->entries == BUDGET_ENTRIES_MAX)
                return error_set(err, E2BIG, "the layers have more than %d entries",
                                 BUDGET_ENTRIES_MAX);
        budget->entries++;
        return 0;
}

int budget_read(struct budget *budget, uint64_t n, uint64_t out, uint64_t in, struct error *err)
{
        if (out > BUDGET_RATIO_FROM && out / BUDGET_RATIO_MAX > in)
                return error_set(err, EFBIG,
                                 "%" PRIu64 " MiB were unpacked from %" PRIu64
                                 " KiB: more than %d times its size is not the data of an image",
                                 out >> 20, in >> 10, BUDGET_RATIO_MAX);
        if (n > budget->bytes_max - budget->read)
                return too_large(budget, err);
        budget->read += n;
        return 0;
}
