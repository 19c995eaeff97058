#include "tests/unit/test.h"

int main(void)
{
        return 0;
}
