/* Events of C and C++ programs, seen from outside: by Kestrel, bpftrace, perf and all that know USDT probes.
 *
 *     #include "kestrel_tracepoint.h"
 *
 *     KESTREL_TRACEPOINT(server, answered, "{path} {status} in {took_us} us",
 *         (str, path), (u16, status), (u64, took_us))
 *
 *     trace_answered("/index", 200, 312);
 *     if (trace_answered_enabled())
 *         ...;
 *
 * defines the event server:answered with its fields and its print format, a function that emits it, and one that says whether anybody listens. While nobody
 * does, emitting is a load of two bytes, a test and a jump that is not taken. A tracer that attaches to the probe raises its semaphore, which these bytes are.
 *
 * Fields, none or at most 12 words of them:
 *
 *     (u8, x) (u16, x) (u32, x) (u64, x)      uint8_t x, ...
 *     (i8, x) (i16, x) (i32, x) (i64, x)      int8_t x, ...
 *     (f32, x) (f64, x)                       float x, double x
 *     (boolean, x)                            int x, 0 or not
 *     (str, x)                                const char *x, which ends in a NUL
 *     (text, x, N)                            the same, of which N - 1 bytes are recorded at most
 *     (bytes, x)                              const void *x, size_t x_length: two words
 *     (u8s, x, N) (u16s, x, N) ... (i64s, x, N)   const uint8_t *x, ...: N numbers
 *
 * A print format names fields in braces: {port}, {flags:#x}, {code:08x}; {{ and }} are braces. The program needs nothing else, and nothing of this file is a symbol that
 * others could see. Records, probes and descriptions are those of Rust programs with the crate kestrel-tracepoint. On other processors than x86-64 nothing is emitted.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef KESTREL_TRACEPOINT_H
#define KESTREL_TRACEPOINT_H

#include <stddef.h>
#include <stdint.h>

#define KESTREL_TEXT_(x) #x
#define KESTREL_TEXT(x) KESTREL_TEXT_(x)
#define KESTREL_JOIN_(a, b) a##b
#define KESTREL_JOIN(a, b) KESTREL_JOIN_(a, b)

/* What a field is: its parameter, its words, its type in the description, what stands before its words in the probe's note. */
#define KESTREL_TOUCH_u8(x, n)
#define KESTREL_PARAMETER_u8(x, n) uint8_t x
#define KESTREL_WORDS_u8(x, n) (uint64_t)(x),
#define KESTREL_TYPE_u8(x, n) "u8 unsigned char"
#define KESTREL_NOTE_u8 KESTREL_WORD("")
#define KESTREL_TOUCH_u8s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_u8s(x, n) const uint8_t *x
#define KESTREL_WORDS_u8s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_u8s(x, n) "u8[" KESTREL_TEXT(n) "] unsigned char"
#define KESTREL_NOTE_u8s KESTREL_WORD("")
#define KESTREL_TOUCH_u16(x, n)
#define KESTREL_PARAMETER_u16(x, n) uint16_t x
#define KESTREL_WORDS_u16(x, n) (uint64_t)(x),
#define KESTREL_TYPE_u16(x, n) "u16 unsigned short"
#define KESTREL_NOTE_u16 KESTREL_WORD("")
#define KESTREL_TOUCH_u16s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_u16s(x, n) const uint16_t *x
#define KESTREL_WORDS_u16s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_u16s(x, n) "u16[" KESTREL_TEXT(n) "] unsigned short"
#define KESTREL_NOTE_u16s KESTREL_WORD("")
#define KESTREL_TOUCH_u32(x, n)
#define KESTREL_PARAMETER_u32(x, n) uint32_t x
#define KESTREL_WORDS_u32(x, n) (uint64_t)(x),
#define KESTREL_TYPE_u32(x, n) "u32 unsigned int"
#define KESTREL_NOTE_u32 KESTREL_WORD("")
#define KESTREL_TOUCH_u32s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_u32s(x, n) const uint32_t *x
#define KESTREL_WORDS_u32s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_u32s(x, n) "u32[" KESTREL_TEXT(n) "] unsigned int"
#define KESTREL_NOTE_u32s KESTREL_WORD("")
#define KESTREL_TOUCH_u64(x, n)
#define KESTREL_PARAMETER_u64(x, n) uint64_t x
#define KESTREL_WORDS_u64(x, n) (uint64_t)(x),
#define KESTREL_TYPE_u64(x, n) "u64 u64"
#define KESTREL_NOTE_u64 KESTREL_WORD("")
#define KESTREL_TOUCH_u64s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_u64s(x, n) const uint64_t *x
#define KESTREL_WORDS_u64s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_u64s(x, n) "u64[" KESTREL_TEXT(n) "] u64"
#define KESTREL_NOTE_u64s KESTREL_WORD("")
#define KESTREL_TOUCH_i8(x, n)
#define KESTREL_PARAMETER_i8(x, n) int8_t x
#define KESTREL_WORDS_i8(x, n) (uint64_t)(x),
#define KESTREL_TYPE_i8(x, n) "i8 signed char"
#define KESTREL_NOTE_i8 KESTREL_WORD("-")
#define KESTREL_TOUCH_i8s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_i8s(x, n) const int8_t *x
#define KESTREL_WORDS_i8s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_i8s(x, n) "i8[" KESTREL_TEXT(n) "] signed char"
#define KESTREL_NOTE_i8s KESTREL_WORD("")
#define KESTREL_TOUCH_i16(x, n)
#define KESTREL_PARAMETER_i16(x, n) int16_t x
#define KESTREL_WORDS_i16(x, n) (uint64_t)(x),
#define KESTREL_TYPE_i16(x, n) "i16 short"
#define KESTREL_NOTE_i16 KESTREL_WORD("-")
#define KESTREL_TOUCH_i16s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_i16s(x, n) const int16_t *x
#define KESTREL_WORDS_i16s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_i16s(x, n) "i16[" KESTREL_TEXT(n) "] short"
#define KESTREL_NOTE_i16s KESTREL_WORD("")
#define KESTREL_TOUCH_i32(x, n)
#define KESTREL_PARAMETER_i32(x, n) int32_t x
#define KESTREL_WORDS_i32(x, n) (uint64_t)(x),
#define KESTREL_TYPE_i32(x, n) "i32 int"
#define KESTREL_NOTE_i32 KESTREL_WORD("-")
#define KESTREL_TOUCH_i32s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_i32s(x, n) const int32_t *x
#define KESTREL_WORDS_i32s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_i32s(x, n) "i32[" KESTREL_TEXT(n) "] int"
#define KESTREL_NOTE_i32s KESTREL_WORD("")
#define KESTREL_TOUCH_i64(x, n)
#define KESTREL_PARAMETER_i64(x, n) int64_t x
#define KESTREL_WORDS_i64(x, n) (uint64_t)(x),
#define KESTREL_TYPE_i64(x, n) "i64 s64"
#define KESTREL_NOTE_i64 KESTREL_WORD("-")
#define KESTREL_TOUCH_i64s(x, n) kestrel_touch(x, (n) * sizeof *(x));
#define KESTREL_PARAMETER_i64s(x, n) const int64_t *x
#define KESTREL_WORDS_i64s(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_i64s(x, n) "i64[" KESTREL_TEXT(n) "] s64"
#define KESTREL_NOTE_i64s KESTREL_WORD("")
#define KESTREL_TOUCH_boolean(x, n)
#define KESTREL_PARAMETER_boolean(x, n) int x
#define KESTREL_WORDS_boolean(x, n) (uint64_t)((x) != 0),
#define KESTREL_TYPE_boolean(x, n) "bool bool"
#define KESTREL_NOTE_boolean KESTREL_WORD("")
#define KESTREL_TOUCH_f32(x, n)
#define KESTREL_PARAMETER_f32(x, n) float x
#define KESTREL_WORDS_f32(x, n) kestrel_bits(x),
#define KESTREL_TYPE_f32(x, n) "f32 float"
#define KESTREL_NOTE_f32 KESTREL_WORD("")
#define KESTREL_TOUCH_f64(x, n)
#define KESTREL_PARAMETER_f64(x, n) double x
#define KESTREL_WORDS_f64(x, n) kestrel_bits(x),
#define KESTREL_TYPE_f64(x, n) "f64 double"
#define KESTREL_NOTE_f64 KESTREL_WORD("")
#define KESTREL_TOUCH_str(x, n) kestrel_touch_text(x);
#define KESTREL_PARAMETER_str(x, n) const char *x
#define KESTREL_WORDS_str(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_str(x, n) "str char"
#define KESTREL_NOTE_str KESTREL_WORD("")
#define KESTREL_TOUCH_text(x, n) kestrel_touch_text(x);
#define KESTREL_PARAMETER_text(x, n) const char *x
#define KESTREL_WORDS_text(x, n) (uint64_t)(uintptr_t)(x),
#define KESTREL_TYPE_text(x, n) "char[" KESTREL_TEXT(n) "] char"
#define KESTREL_NOTE_text KESTREL_WORD("")
#define KESTREL_TOUCH_bytes(x, n) kestrel_touch(x, x##_length);
#define KESTREL_PARAMETER_bytes(x, n) const void *x, size_t x##_length
#define KESTREL_WORDS_bytes(x, n) (uint64_t)(uintptr_t)(x), (uint64_t)x##_length,
#define KESTREL_TYPE_bytes(x, n) "bytes unsigned char"
#define KESTREL_NOTE_bytes KESTREL_WORD("") KESTREL_WORD("")

/* A word in a note's text of arguments; the assembler counts where it lies. */
#define KESTREL_WORD(sign)                                        \
    "  .if kestrel_at > 0\n"                                     \
    "  .byte 32\n"                                               \
    "  .endif\n"                                                 \
    "  .ascii \"" sign "8@\"\n"                                   \
    "  .if kestrel_at >= 10\n"                                    \
    "  .byte 48 + kestrel_at / 10\n"                              \
    "  .endif\n"                                                  \
    "  .byte 48 + kestrel_at %% 10\n"                             \
    "  .ascii \"(%%rax)\"\n"                                     \
    "  .set kestrel_at, kestrel_at + 8\n"

/* Each field of an event, whose arguments are its print format and then they; `none` where there is none. */
#define KESTREL_COUNT(...) \
    KESTREL_NTH(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define KESTREL_NTH(print, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, n, ...) n
#define KESTREL_EACH(what, separator, none, ...) \
    KESTREL_JOIN(KESTREL_EACH_, KESTREL_COUNT(__VA_ARGS__))(what, separator, none, __VA_ARGS__)
#define KESTREL_COMMA() ,
#define KESTREL_NOTHING()
#define KESTREL_EACH_MANY(...) kestrel_tracepoint_has_12_fields_at_most
#define KESTREL_EACH_0(what, separator, none, print) none
#define KESTREL_EACH_1(what, separator, none, print, a) what a
#define KESTREL_EACH_2(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_1(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_3(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_2(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_4(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_3(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_5(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_4(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_6(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_5(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_7(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_6(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_8(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_7(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_9(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_8(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_10(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_9(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_11(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_10(what, separator, none, print, __VA_ARGS__)
#define KESTREL_EACH_12(what, separator, none, print, a, ...) what a separator() KESTREL_EACH_11(what, separator, none, print, __VA_ARGS__)
/* The print format as a text of the assembler's. */
#define KESTREL_PRINT(...) KESTREL_PRINT_(__VA_ARGS__, 0)
#define KESTREL_PRINT_(print, ...) #print

#define KESTREL_PARAMETER(...) KESTREL_PARAMETER_(__VA_ARGS__, 0, 0)
#define KESTREL_PARAMETER_(kind, name, n, ...) KESTREL_PARAMETER_##kind(name, n)
#define KESTREL_WORDS(...) KESTREL_WORDS_(__VA_ARGS__, 0, 0)
#define KESTREL_WORDS_(kind, name, n, ...) KESTREL_WORDS_##kind(name, n)
#define KESTREL_TOUCH(...) KESTREL_TOUCH_(__VA_ARGS__, 0, 0)
#define KESTREL_TOUCH_(kind, name, n, ...) KESTREL_TOUCH_##kind(name, n)
#define KESTREL_DESCRIBED(...) KESTREL_DESCRIBED_(__VA_ARGS__, 0, 0)
#define KESTREL_DESCRIBED_(kind, name, n, ...) "  .asciz \"" #name " " KESTREL_TYPE_##kind(name, n) "\"\n"
#define KESTREL_NOTED(...) KESTREL_NOTED_(__VA_ARGS__, 0)
#define KESTREL_NOTED_(kind, ...) KESTREL_NOTE_##kind

#if defined(__x86_64__) && defined(__linux__) && !defined(KESTREL_TRACEPOINT_OFF)

/* A float as the bits of a double. */
static inline uint64_t kestrel_bits(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Tracers read no page that is not in memory, as those of constants may not be before they are first used: reads the first and the last byte of what they take, 4,096 at most. */
static inline void kestrel_touch(const void *memory, size_t bytes)
{
    const volatile unsigned char *at = (const volatile unsigned char *)memory;
    if (at && bytes) {
        (void)at[0];
        (void)at[(bytes < 4096 ? bytes : 4096) - 1];
    }
}

static inline void kestrel_touch_text(const char *text)
{
    const volatile char *at = text;
    for (size_t left = 4096; at && left && *at; left--)
        at++;
}

/* A function that is inlined is at several places, each of which writes its note. The assembler gets no names: with -flto files are one to it. */
#define KESTREL_TRACEPOINT(group, event, ...)                                                           \
    __asm__(".pushsection .note.kestrel,\"a\",@note\n"                                                  \
            "  .balign 4\n"                                                                             \
            "  .long 8, 6f - 5f, 1\n"                                                                   \
            "  .asciz \"kestrel\"\n"                                                                    \
            "5:\n"                                                                                      \
            "  .asciz \"" #group "\"\n"                                                                 \
            "  .asciz \"" #event "\"\n"                                                                 \
            "  .asciz " KESTREL_PRINT(__VA_ARGS__) "\n"                                                 \
            KESTREL_EACH(KESTREL_DESCRIBED, KESTREL_NOTHING, , __VA_ARGS__)                             \
            "6:\n"                                                                                      \
            "  .balign 4\n"                                                                             \
            ".popsection\n");                                                                           \
    /* All objects of a program share one semaphore. */                                                 \
    extern volatile unsigned short KESTREL_SEMAPHORE(group, event) __asm__("kestrel_semaphore_" #group "_" #event) \
        __attribute__((weak, visibility("hidden"), section(".probes")));                                \
    __attribute__((used)) volatile unsigned short KESTREL_SEMAPHORE(group, event) = 0;                  \
    static inline __attribute__((unused)) int trace_##event##_enabled(void)                             \
    {                                                                                                   \
        return __builtin_expect(KESTREL_SEMAPHORE(group, event) != 0, 0) != 0;                          \
    }                                                                                                   \
    static inline __attribute__((unused, always_inline)) void trace_##event(                            \
        KESTREL_EACH(KESTREL_PARAMETER, KESTREL_COMMA, void, __VA_ARGS__))                              \
    {                                                                                                   \
        if (trace_##event##_enabled()) {                                                                \
            KESTREL_EACH(KESTREL_TOUCH, KESTREL_NOTHING, , __VA_ARGS__)                                 \
            const uint64_t kestrel_words[] = {KESTREL_EACH(KESTREL_WORDS, KESTREL_NOTHING, , __VA_ARGS__) 0}; \
            __asm__ volatile("990:\n"                                                                   \
                "  nop\n"                                                                               \
                "  .pushsection .note.stapsdt,\"\",@note\n"                                             \
                "  .balign 4\n"                                                                         \
                "  .long 8, 996f - 995f, 3\n"                                                           \
                "  .asciz \"stapsdt\"\n"                                                                \
                "995:\n"                                                                                \
                "  .quad 990b, 0, kestrel_semaphore_" #group "_" #event "\n"                            \
                "  .asciz \"" #group "\"\n"                                                             \
                "  .asciz \"" #event "\"\n"                                                             \
                "  .set kestrel_at, 0\n"                                                                \
                KESTREL_EACH(KESTREL_NOTED, KESTREL_NOTHING, , __VA_ARGS__)                             \
                "  .byte 0\n"                                                                           \
                "996:\n"                                                                                \
                "  .balign 4\n"                                                                         \
                "  .popsection\n"                                                                       \
                : : "a"(kestrel_words) : "memory");                                                     \
        }                                                                                               \
    }

#define KESTREL_SEMAPHORE(group, event) kestrel_semaphore_of_##group##_##event

#else

#define KESTREL_TRACEPOINT(group, event, ...)                                                           \
    static inline __attribute__((unused)) int trace_##event##_enabled(void)                             \
    {                                                                                                   \
        return 0;                                                                                       \
    }                                                                                                   \
    static inline __attribute__((unused)) void trace_##event(                                           \
        KESTREL_EACH(KESTREL_PARAMETER, KESTREL_COMMA, void, __VA_ARGS__))                              \
    {                                                                                                   \
    }

#endif

#endif
