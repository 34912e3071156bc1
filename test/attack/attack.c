/* attack NAME SIZE: makes one attack. See attack.h. */
#include "attack.h"

static const attack *const attack_sets[] = {attack_misuses, attack_houses, attack_layouts};

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("attack NAME SIZE\n", stderr);
        return 2;
    }
    size_t size = strtoul(argv[2], NULL, 0);
    for (size_t set = 0; set < sizeof attack_sets / sizeof attack_sets[0]; set++)
        for (const attack *a = attack_sets[set]; a->name; a++)
            if (strcmp(a->name, argv[1]) == 0) {
                a->run(size);
                _exit(0);
            }
    fprintf(stderr, "attack: there is no attack named %s\n", argv[1]);
    return 2;
}
