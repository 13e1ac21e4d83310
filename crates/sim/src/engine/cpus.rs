// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that programs share, first come, first served.

/// The CPUs.
#[derive(Clone, Debug)]
pub(super) struct Cpus {
    /// When each is free again; empty when every program has its own.
    free_ns: Vec<u64>,
}

impl Cpus {
    pub fn new(cpus: Option<usize>) -> Self {
        Self {
            free_ns: vec![0; cpus.unwrap_or(0)],
        }
    }

    /// A program needs a CPU for `cpu_ns` from `now_ns` on; when it has had it.
    pub fn run(&mut self, now_ns: u64, cpu_ns: u64) -> u64 {
        let first_free = self.free_ns.iter_mut().min();
        let Some(free_ns) = first_free.filter(|_| cpu_ns > 0) else {
            return now_ns.saturating_add(cpu_ns);
        };
        *free_ns = now_ns.max(*free_ns).saturating_add(cpu_ns);
        *free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_wait_for_a_cpu_when_there_are_too_few() {
        let mut two = Cpus::new(Some(2));
        assert_eq!(
            [two.run(0, 10), two.run(0, 10), two.run(0, 10)],
            [10, 10, 20]
        );
        assert_eq!(two.run(100, 5), 105);
        let mut enough = Cpus::new(None);
        assert_eq!([enough.run(0, 10), enough.run(0, 10)], [10, 10]);
    }
}
