//! A set of small numbers that finds its smallest member in a few steps: a hierarchical bit set.

/// One bit per number, one bit above it per word, and so on up to a single word.
#[derive(Debug)]
pub(super) struct Bits {
    /// Lowest level first. A bit of a higher level is set if its word in the level below is not
    /// zero.
    levels: Vec<Box<[u64]>>,
}

impl Bits {
    /// Creates an empty set of numbers below `size`.
    pub(super) fn new(size: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = size;
        loop {
            words = words.div_ceil(64).max(1);
            levels.push(vec![0; words].into_boxed_slice());
            if words == 1 {
                return Self { levels };
            }
        }
    }

    pub(super) fn insert(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            let before = *word;
            *word |= 1 << (number % 64);
            if before != 0 {
                return;
            }
            number /= 64;
        }
    }

    pub(super) fn remove(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            *word &= !(1 << (number % 64));
            if *word != 0 {
                return;
            }
            number /= 64;
        }
    }

    pub(super) fn first(&self) -> Option<usize> {
        let mut number = 0;
        for level in self.levels.iter().rev() {
            let word = level[number];
            if word == 0 {
                return None;
            }
            number = number * 64 + word.trailing_zeros() as usize;
        }
        Some(number)
    }

    #[cfg(test)]
    pub(super) fn contains(&self, number: usize) -> bool {
        self.levels[0][number / 64] & 1 << (number % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    //! `first` is the smallest member, whatever was inserted and removed.

    use super::Bits;

    #[test]
    fn the_first_is_the_smallest_member() {
        let mut bits = Bits::new(70_000);
        assert_eq!(bits.first(), None);
        let members = [69_999, 64, 63, 4_096, 0, 4_095];
        for member in members {
            bits.insert(member);
            bits.insert(member);
        }
        for member in [0, 63, 64, 4_095, 4_096, 69_999] {
            assert_eq!(bits.first(), Some(member));
            assert!(bits.contains(member));
            bits.remove(member);
            bits.remove(member);
        }
        assert_eq!(bits.first(), None);
    }

    #[test]
    fn a_set_of_one_number_works() {
        let mut bits = Bits::new(1);
        bits.insert(0);
        assert_eq!(bits.first(), Some(0));
    }
}
