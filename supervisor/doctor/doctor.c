/* Reports which layers of the sandbox work on this machine. */
#include "supervisor/doctor/doctor.h"

#include <unistd.h>

#include "base/log.h"
#include "supervisor/doctor/findings.h"
#include "supervisor/doctor/report.h"

int doctor_main(bool json, const char *const *configs, size_t n_configs)
{
        static struct doctor_system state;
        static struct doctor d = {.system = &state};

        doctor_system_read(&state);
        doctor_check_kernel(&d);
        doctor_check_host(&d, configs, n_configs);
        int r = json ? doctor_print_json(&d) : doctor_print_table(&d, isatty(STDOUT_FILENO));
        if (r < 0)
                log_error("doctor: the report cannot be written");
        return r < 0 || !doctor_usable(&d);
}
