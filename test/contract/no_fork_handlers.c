/* A shim for the control of the fork tests: it registers no fork handlers. Preloaded before glebe it replaces the C
 * library's function behind pthread_atfork. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
    (void)prepare;
    (void)parent;
    (void)child;
    (void)object;
    return 0;
}
