/* Reports which layers of the sandbox work on this machine. */
#include "supervisor/doctor/doctor.h"

#include <signal.h>
#include <unistd.h>

#include "base/exit-status.h"
#include "base/log.h"
#include "supervisor/doctor/attempt.h"
#include "supervisor/doctor/host.h"
#include "supervisor/doctor/kernel.h"
#include "supervisor/doctor/report.h"
#include "supervisor/doctor/system.h"

/* Each step has its own deadline. This one ends a step that the kernel blocks. */
enum { DOCTOR_SECONDS = ATTEMPT_SECONDS + 60 };

static void on_alarm(int number)
{
        static const char text[] = "cloister: doctor: a check did not end in time\n";

        (void)number;
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(EXIT_NO_SANDBOX);
}

int doctor_main(bool json, const char *const *configs, size_t n_configs)
{
        static struct doctor_system state;
        static struct doctor d = {.system = &state};
        static struct attempt attempt;

        signal(SIGALRM, on_alarm);
        alarm(DOCTOR_SECONDS);
        doctor_system_read(&state);
        /* Before the other checks, of which one may move this process into a control group. */
        attempt_run(configs, n_configs, NULL, &attempt);
        doctor_check_kernel(&d);
        doctor_check_host(&d, configs, n_configs);
        doctor_take_attempt(&d, &attempt);
        if (attempt.done && attempt.status == 0)
                doctor_check_profiles(&d, configs, n_configs);
        int r = json ? doctor_print_json(&d) : doctor_print_table(&d, isatty(STDOUT_FILENO));
        if (r < 0)
                log_error("doctor: the report cannot be written");
        if (doctor_usable(&d))
                return r < 0;
        return d.tried && d.status > 0 ? d.status : EXIT_NO_SANDBOX;
}
