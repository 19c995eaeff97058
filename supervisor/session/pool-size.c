/* How many ready sandboxes are wanted. */
#include "supervisor/session/pool-size.h"

static double level_at(const struct pool_size *d, uint64_t now, double make_us)
{
        double level = d->level - (double)(now - d->level_us) / make_us;

        return level > 0 ? level : 0;
}

static unsigned int round_up(double level)
{
        unsigned int n = (unsigned int)level;

        return n + (level > n);
}

void pool_size_note(struct pool_size *d, uint64_t now, double make_us)
{
        double level = level_at(d, now, make_us) + 1;

        d->level = level < CONFIG_POOL_MOST ? level : CONFIG_POOL_MOST;
        d->level_us = now;
        if (round_up(d->level) > d->peak)
                d->peak = round_up(d->level);
}

bool pool_size_look_back(struct pool_size *d, uint64_t now, double make_us)
{
        d->peak_before = d->peak;
        d->peak = round_up(level_at(d, now, make_us));
        return d->peak > 0 || d->peak_before > 0;
}

size_t pool_size_wanted(const struct pool_size *d, const struct config_pool *bounds)
{
        size_t need = d->peak > d->peak_before ? d->peak : d->peak_before;

        if (!d->expected && need == 0)
                return 0;
        if (need < bounds->min)
                return bounds->min;
        return need < bounds->max ? need : bounds->max;
}

void pool_size_note_death(struct pool_size *d, uint64_t now, uint64_t lived_us)
{
        uint64_t ms = POOL_SIZE_AGAIN_MS;

        d->deaths = lived_us > POOL_SIZE_LONG_LIFE_US ? 1 : d->deaths + 1;
        for (unsigned int i = 1; i < d->deaths && ms < POOL_SIZE_AGAIN_MAX_MS; i++)
                ms *= 2;
        d->not_before_us = now + ms * 1000;
}
