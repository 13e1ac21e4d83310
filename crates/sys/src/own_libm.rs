// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few functions of libm that this program calls, so that it needs no libm.so.
//!
//! Input: calls that the compiler makes of `f64::ln` and its like. Output: the same as those of the
//! C library, within a unit in the last place, and equal on every machine.
//!
//! A cold start read 428 KiB of libm.so for these functions, a fifth of all that it read
//! (`scripts/own-cold-start.sh`). The dynamic linker looks for six names in its tables, and each
//! page fault reads 128 KiB around. The linker prefers the functions here; those that are missing
//! here still come from libm.so.

macro_rules! own {
    ($($name:ident($($argument:ident),+);)*) => {
        $(
            // SAFETY: takes and returns what the C standard says of this name, and does the same.
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: f64),+) -> f64 {
                libm::$name($($argument),+)
            }
        )*
    };
}

own! {
    exp(x);
    log(x);
    log2(x);
    log10(x);
    pow(x, y);
    hypot(x, y);
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    /// Whether two values are neighbours, or equal.
    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() <= expected.abs() * 2.0 * f64::EPSILON
    }

    #[test]
    fn the_compiler_calls_them_and_they_are_right() {
        // Exact ones, and such that show a wrong base or order of arguments.
        assert_eq!(black_box(8.0_f64).log2(), 3.0);
        assert_eq!(black_box(2.0_f64).powf(black_box(10.0)), 1024.0);
        assert!(near(black_box(1000.0_f64).log10(), 3.0));
        assert!(near(black_box(1.0_f64).exp(), std::f64::consts::E));
        assert!(near(black_box(10.0_f64).ln(), std::f64::consts::LN_10));
        assert_eq!(black_box(3.0_f64).hypot(black_box(4.0)), 5.0);
        assert_eq!(black_box(0.0_f64).ln(), f64::NEG_INFINITY);
        assert!(black_box(-1.0_f64).log2().is_nan());
    }
}
