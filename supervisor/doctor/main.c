/* cloister-doctor: parses the arguments that `cloister doctor` passes. */
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/doctor/attack.h"
#include "supervisor/doctor/doctor.h"
#include "supervisor/options/options.h"

int main(int argc, char **argv)
{
        struct options o;
        struct error error = {};

        options_init(&o);
        if (fd_open_standard_streams() < 0)
                return 1;
        if (options_parse(argv + (argc > 0), PROGRAM_DOCTOR, &o, &error) < 0) {
                log_error("%s (see 'cloister doctor --help')", error.text);
                return 2;
        }
        if (o.log_level >= 0)
                log_set_level((enum log_level)o.log_level);
        if (log_file_open(o.log_file,
                          o.log_format < 0 ? LOG_FORMAT_TEXT : (enum log_format)o.log_format,
                          &error) < 0) {
                log_error("%s", error.text);
                return 1;
        }
        if (o.attack)
                return attack_main(&o);
        return doctor_main(o.json, o.configs, o.n_configs);
}
