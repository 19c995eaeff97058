/* cloister-worker: see worker.h. */
#include "sandbox-init/worker/worker.h"

int main(int argc, char **argv)
{
        return worker_main(argc, argv);
}
