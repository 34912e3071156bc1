/* A stand-in for libgcc_s.so.1, against which libgc.so.1 links where zig is the linker. A thread that is cancelled
 * unwinds, and must do so with the unwinder of the C library, not with a second one inside libgc. Every system with
 * glibc has the real one. gcc_s.map gives the names their versions. */
void _Unwind_Resume(void);
void __gcc_personality_v0(void);
void _Unwind_Resume(void)
{
}
void __gcc_personality_v0(void)
{
}
