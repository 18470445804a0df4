//! Descriptions of events in the program's file for Kestrel: names, fields with their types, print format. An ELF note beside the USDT note, which has no types.
//!
//! A note's owner is `kestrel`, its type 1, and it is part of what is loaded of the program, so that `strip` leaves it. It holds strings that each end in a NUL: group, name, print
//! format, and for each field `NAME TYPE C TYPE`, where the type is one of `u8` … `i64`, `f32`, `f64`, `bool`, `str`, `bytes`, `char[N]`, `u16[N]`. NULs fill the rest.

use crate::value::{Definition, Field, FieldKind};

/// Bytes of a description, at most.
const MAX: usize = 4096;

/// Text as it is put together.
struct Text {
    bytes: [u8; MAX],
    length: usize,
}

impl Text {
    const fn push(mut self, text: &str) -> Self {
        let (text, mut at) = (text.as_bytes(), 0);
        while at < text.len() {
            // The last byte is left 0, as the end of the text.
            assert!(
                self.length < MAX - 1,
                "the names, types and print format of an event take more than 4,096 bytes"
            );
            self.bytes[self.length] = text[at];
            self.length += 1;
            at += 1;
        }
        self
    }

    const fn number(mut self, number: u16) -> Self {
        const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let mut unit = 10_000;
        while unit > 0 {
            if number >= unit || unit == 1 {
                self = self.push(DIGITS[(number / unit % 10) as usize]);
            }
            unit /= 10;
        }
        self
    }

    const fn integer(self, size: u8, signed: bool) -> Self {
        let letter = if signed { "i" } else { "u" };
        self.push(letter).number(size as u16 * 8)
    }

    const fn kind(self, kind: FieldKind) -> Self {
        match kind {
            FieldKind::Integer { size, signed } => self.integer(size, signed),
            FieldKind::Float { size } => self.push("f").number(size as u16 * 8),
            FieldKind::Bool => self.push("bool"),
            FieldKind::Text { size } => self.push("char[").number(size).push("]"),
            FieldKind::String => self.push("str"),
            FieldKind::Bytes => self.push("bytes"),
            FieldKind::Array { size, signed, count } => {
                self.integer(size, signed).push("[").number(count).push("]")
            }
        }
    }
}

struct Description<T>(std::marker::PhantomData<T>);

impl<T: Definition> Description<T> {
    const TEXT: Text = text(T::NAMES, T::PRINT, T::FIELDS);
    const LENGTH: usize = Self::TEXT.length + 1;
    const WORDS: [u64; MAX / 8] = words(&Self::TEXT);
}

const fn text((group, name): (&str, &str), print: &str, fields: &[Field]) -> Text {
    let mut text = Text {
        bytes: [0; MAX],
        length: 0,
    };
    text = text
        .push(group)
        .push("\0")
        .push(name)
        .push("\0")
        .push(print)
        .push("\0");
    let mut at = 0;
    while at < fields.len() {
        let Field { name, kind, c_type } = fields[at];
        text = text.push(name).push(" ").kind(kind);
        text = text.push(" ").push(c_type).push("\0");
        at += 1;
    }
    text
}

const fn words(text: &Text) -> [u64; MAX / 8] {
    let (mut words, mut at) = ([0; MAX / 8], 0);
    while at < MAX {
        words[at / 8] |= (text.bytes[at] as u64) << (at % 8 * 8);
        at += 1;
    }
    words
}

macro_rules! note {
    ($($at:literal)*) => {
        // SAFETY: no instruction; the section holds a note.
        unsafe {
            core::arch::asm!(
                ".pushsection .note.kestrel,\"a\",@note",
                ".balign 4",
                ".long 8, 996f - 995f, 1",
                ".asciz \"kestrel\"",
                "995:",
                $(concat!(".quad {", $at, "}"),)*
                "996:",
                ".balign 4",
                ".popsection",
                $(const Description::<T>::WORDS[$at],)*
                options(nomem, nostack, preserves_flags),
            );
        }
    };
}

/// Puts the description of `T` into the program's file, in the smallest of three sizes.
#[inline(always)]
#[allow(unsafe_code, reason = "a section of the linker's")]
pub(crate) fn emit_note<T: Definition>() {
    if const { Description::<T>::LENGTH <= 256 } {
        note!(
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        );
    } else if const { Description::<T>::LENGTH <= 1024 } {
        note!(
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
            40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75
            76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108
            109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127
        );
    } else {
        note!(
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
            40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75
            76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108
            109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135
            136 137 138 139 140 141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156 157 158 159 160 161 162
            163 164 165 166 167 168 169 170 171 172 173 174 175 176 177 178 179 180 181 182 183 184 185 186 187 188 189
            190 191 192 193 194 195 196 197 198 199 200 201 202 203 204 205 206 207 208 209 210 211 212 213 214 215 216
            217 218 219 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 243
            244 245 246 247 248 249 250 251 252 253 254 255 256 257 258 259 260 261 262 263 264 265 266 267 268 269 270
            271 272 273 274 275 276 277 278 279 280 281 282 283 284 285 286 287 288 289 290 291 292 293 294 295 296 297
            298 299 300 301 302 303 304 305 306 307 308 309 310 311 312 313 314 315 316 317 318 319 320 321 322 323 324
            325 326 327 328 329 330 331 332 333 334 335 336 337 338 339 340 341 342 343 344 345 346 347 348 349 350 351
            352 353 354 355 356 357 358 359 360 361 362 363 364 365 366 367 368 369 370 371 372 373 374 375 376 377 378
            379 380 381 382 383 384 385 386 387 388 389 390 391 392 393 394 395 396 397 398 399 400 401 402 403 404 405
            406 407 408 409 410 411 412 413 414 415 416 417 418 419 420 421 422 423 424 425 426 427 428 429 430 431 432
            433 434 435 436 437 438 439 440 441 442 443 444 445 446 447 448 449 450 451 452 453 454 455 456 457 458 459
            460 461 462 463 464 465 466 467 468 469 470 471 472 473 474 475 476 477 478 479 480 481 482 483 484 485 486
            487 488 489 490 491 492 493 494 495 496 497 498 499 500 501 502 503 504 505 506 507 508 509 510 511
        );
    }
}
