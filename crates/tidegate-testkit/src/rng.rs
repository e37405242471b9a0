//! Reproducible random numbers: a seed gives the same sequence on every machine.
//!
//! The generator is xoshiro256** by Blackman and Vigna, seeded by splitmix64. Good enough to find
//! bugs; not for secrets.

use std::env::{self, VarError};
use std::thread;

/// The environment variable that replaces the seed of a test: decimal, or hexadecimal after
/// `0x`.
pub const SEED_VARIABLE: &str = "TIDEGATE_SEED";

/// A seeded generator that prints its seed if the test panics.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Rng;
///
/// let mut rng = Rng::new(1);
/// let roll = rng.below(6) + 1;
/// assert!((1..=6).contains(&roll));
/// assert_eq!(Rng::new(1).below(6) + 1, roll);
/// ```
#[derive(Debug)]
pub struct Rng {
    seed: u64,
    pub(crate) state: [u64; 4],
    /// `true` if dropping the generator during a panic prints the seed.
    announces: bool,
}

impl Rng {
    /// Creates the generator of a seed, regardless of the environment.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            announces: true,
            ..Self::silent(seed)
        }
    }

    /// Creates the generator of the seed in [`SEED_VARIABLE`], or of `default` if it is not set.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_testkit::Rng;
    ///
    /// let mut rng = Rng::seed_from_env_or(42);
    /// println!("seed {}: {}", rng.seed(), rng.next_u64());
    /// ```
    ///
    /// # Panics
    ///
    /// If the variable is not a number. Running with a seed other than the requested one would
    /// make the test look repaired.
    #[must_use]
    pub fn seed_from_env_or(default: u64) -> Self {
        Self::new(seed_from_env().unwrap_or(default))
    }

    /// Creates an independent generator for another thread. Its seed is drawn from this generator,
    /// so that this generator's seed still reproduces everything.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidegate_testkit::Rng;
    ///
    /// let mut rng = Rng::new(1);
    /// let mut for_thread = rng.fork();
    /// assert_ne!(for_thread.next_u64(), rng.next_u64());
    /// ```
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::silent(self.next_u64())
    }

    /// Returns a random number.
    pub fn next_u64(&mut self) -> u64 {
        let [mut s0, mut s1, mut s2, mut s3] = self.state;
        let drawn = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s1 << 17;
        s2 ^= s0;
        s3 ^= s1;
        s1 ^= s2;
        s0 ^= s3;
        s2 ^= shifted;
        self.state = [s0, s1, s2, s3.rotate_left(45)];
        drawn
    }

    /// Returns a number less than `n`, uniformly distributed (Lemire's method).
    ///
    /// # Panics
    ///
    /// If `n` is zero.
    #[track_caller]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below zero to draw");
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            // Rejects this many of the 2^64 draws, which would favour small results.
            if wide as u64 >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Returns an index into a collection of length `len`.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut rng = tidegate_testkit::Rng::new(1);
    /// let upstreams = ["a", "b", "c"];
    /// let picked = upstreams[rng.index(upstreams.len())];
    /// assert!(upstreams.contains(&picked));
    /// ```
    ///
    /// # Panics
    ///
    /// If `len` is zero.
    #[track_caller]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns `true` with probability `p`: never for 0 or less, always for 1 or more.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut rng = tidegate_testkit::Rng::new(1);
    /// let heads = (0..1_000).filter(|_| rng.chance(0.5)).count();
    /// assert!((400..600).contains(&heads));
    /// ```
    pub fn chance(&mut self, p: f64) -> bool {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        ((self.next_u64() >> 11) as f64) * STEP < p
    }

    /// Shuffles a slice; each order is equally likely (Fisher and Yates).
    ///
    /// # Examples
    ///
    /// ```
    /// let mut order: Vec<_> = (0..10).collect();
    /// tidegate_testkit::Rng::new(1).shuffle(&mut order);
    /// assert_ne!(order, (0..10).collect::<Vec<_>>());
    /// order.sort();
    /// assert_eq!(order, (0..10).collect::<Vec<_>>());
    /// ```
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            slice.swap(last, self.index(last + 1));
        }
    }

    /// Returns the seed of this generator.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Creates a generator that does not print its seed, because the caller reports it.
    pub(crate) fn silent(seed: u64) -> Self {
        let mut mixer = seed;
        Self {
            seed,
            state: std::array::from_fn(|_| splitmix64(&mut mixer)),
            announces: false,
        }
    }
}

impl Drop for Rng {
    fn drop(&mut self) {
        if self.announces && thread::panicking() {
            eprintln!("to repeat this: {SEED_VARIABLE}={}", self.seed);
        }
    }
}

/// Returns the seed from the environment, if it is set.
pub(crate) fn seed_from_env() -> Option<u64> {
    match env::var(SEED_VARIABLE) {
        Ok(text) => Some(parse_seed(&text)),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(text)) => Some(parse_seed(&text.to_string_lossy())),
    }
}

pub(crate) fn parse_seed(text: &str) -> u64 {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{SEED_VARIABLE} must be a number, and is {text:?}"))
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
