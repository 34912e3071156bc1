/* What an error number means, in the words of strerror. That function reads a catalog of translations where the program
 * has set a locale, so it allocates; we print such lines inside malloc. Here are the errors that opening, writing,
 * mapping and renaming a file can have. The recorder (record/) uses this header too. */
#ifndef GB_ERRORS_H
#define GB_ERRORS_H

#include <errno.h>

static inline const char *gb_error_text(int error)
{
    switch (error) {
    case EPERM: return "Operation not permitted";
    case ENOENT: return "No such file or directory";
    case EINTR: return "Interrupted system call";
    case EIO: return "Input/output error";
    case ENXIO: return "No such device or address";
    case EBADF: return "Bad file descriptor";
    case EAGAIN: return "Resource temporarily unavailable";
    case ENOMEM: return "Cannot allocate memory";
    case EACCES: return "Permission denied";
    case EBUSY: return "Device or resource busy";
    case EEXIST: return "File exists";
    case EXDEV: return "Invalid cross-device link";
    case ENODEV: return "No such device";
    case ENOTDIR: return "Not a directory";
    case EISDIR: return "Is a directory";
    case EINVAL: return "Invalid argument";
    case ENFILE: return "Too many open files in system";
    case EMFILE: return "Too many open files";
    case EFBIG: return "File too large";
    case ENOSPC: return "No space left on device";
    case EROFS: return "Read-only file system";
    case EPIPE: return "Broken pipe";
    case ENOSYS: return "Function not implemented";
    case ENAMETOOLONG: return "File name too long";
#ifdef ETXTBSY
    case ETXTBSY: return "Text file busy";
#endif
#ifdef ELOOP
    case ELOOP: return "Too many levels of symbolic links";
#endif
#ifdef EOVERFLOW
    case EOVERFLOW: return "Value too large for defined data type";
#endif
#ifdef EOPNOTSUPP
    case EOPNOTSUPP: return "Operation not supported";
#endif
#ifdef ESTALE
    case ESTALE: return "Stale file handle";
#endif
#ifdef EDQUOT
    case EDQUOT: return "Disk quota exceeded";
#endif
    default: return "an error without a name here";
    }
}

#endif
