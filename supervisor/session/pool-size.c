/* The wanted number of spare sandboxes. */
#include "supervisor/session/pool-size.h"

static double level_at(const struct pool_size *size, uint64_t now, double make_us)
{
        double level = size->level - (double)(now - size->level_us) / make_us;

        return level > 0 ? level : 0;
}

static unsigned int round_up(double level)
{
        unsigned int n = (unsigned int)level;

        return n + (level > n);
}

void pool_size_note(struct pool_size *size, uint64_t now, double make_us)
{
        double level = level_at(size, now, make_us) + 1;

        size->level = level < CONFIG_POOL_MAX ? level : CONFIG_POOL_MAX;
        size->level_us = now;
        if (round_up(size->level) > size->peak)
                size->peak = round_up(size->level);
}

bool pool_size_end_period(struct pool_size *size, uint64_t now, double make_us)
{
        size->peak_before = size->peak;
        size->peak = round_up(level_at(size, now, make_us));
        return size->peak > 0 || size->peak_before > 0;
}

size_t pool_size_wanted(const struct pool_size *size, const struct config_pool *limits)
{
        size_t need = size->peak > size->peak_before ? size->peak : size->peak_before;

        if (!size->expected && need == 0)
                return 0;
        if (need < limits->min)
                return limits->min;
        return need < limits->max ? need : limits->max;
}

void pool_size_note_first(struct pool_size *size, uint64_t now)
{
        if (size->first_us > 0)
                return;
        size->first_us = now;
        size->not_before_us = now + POOL_EARLY_MS * 1000;
}

void pool_size_note_death(struct pool_size *size, uint64_t now, uint64_t lived_us)
{
        uint64_t ms = POOL_SIZE_AGAIN_MS;

        size->deaths = lived_us > POOL_SIZE_LONG_LIFE_US ? 1 : size->deaths + 1;
        for (unsigned int i = 1; i < size->deaths && ms < POOL_SIZE_AGAIN_MAX_MS; i++)
                ms *= 2;
        size->not_before_us = now + ms * 1000;
}
