/* attack NAME SIZE: makes one attack. attack list: prints the names. See attack.h. */
#include "attack.h"

static const attack *const attack_sets[] = {attack_misuses, attack_houses, attack_layouts};

int main(int argc, char **argv)
{
    bool list = argc == 2 && strcmp(argv[1], "list") == 0;
    if (argc != 3 && !list) {
        fputs("attack NAME SIZE, or attack list\n", stderr);
        return 2;
    }
    size_t size = list ? 0 : strtoul(argv[2], NULL, 0);
    for (size_t set = 0; set < sizeof attack_sets / sizeof attack_sets[0]; set++)
        for (const attack *a = attack_sets[set]; a->name; a++)
            if (list)
                puts(a->name);
            else if (strcmp(a->name, argv[1]) == 0) {
                a->run(size);
                _exit(0);
            }
    if (!list)
        fprintf(stderr, "attack: there is no attack named %s\n", argv[1]);
    return list ? 0 : 2;
}
