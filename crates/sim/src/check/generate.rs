// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws programs.

use foreread_core::policy::Advice;

use super::program::{DESCRIPTORS, FILE_BYTES, MapAdvice, Program, Step};
use crate::Random;
use crate::path::PAGE_BYTES;

/// Windows to try, in KiB: none, smaller than a page, no powers of two, the kernel's default, and
/// more than the largest file.
const READ_AHEAD_KIB: [u64; 12] = [0, 4, 16, 60, 64, 128, 128, 128, 256, 512, 1024, 8192];

/// Request sizes.
const READ_BYTES: [u64; 12] = [
    1, 100, 4096, 4096, 4096, 8192, 16_384, 16_384, 65_536, 131_072, 262_144, 1_048_576,
];

/// Program `number` of a seed.
#[must_use]
pub fn generate(seed: u64, number: u64) -> Program {
    let mut random = Random::new(seed);
    // Programs of one seed must not overlap, nor those of neighbouring seeds.
    let own = random.draw() ^ number.wrapping_mul(0xd134_2543_de82_ef95);
    let mut random = Random::new(own);
    let file = random.below(FILE_BYTES.len() as u64) as usize;
    let read_ahead_kib = pick(&mut random, &READ_AHEAD_KIB);
    let mut draft = Draft {
        random,
        bytes: FILE_BYTES[file],
        open: [false; DESCRIPTORS],
        mapped: None,
        steps: Vec::new(),
    };
    draft.open(0);
    for _ in 0..draft.between(1, 6) {
        draft.phase();
    }
    Program {
        seed,
        number,
        file,
        read_ahead_kib,
        steps: draft.steps,
    }
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// A program in the making.
struct Draft {
    random: Random,
    bytes: u64,
    open: [bool; DESCRIPTORS],
    /// The pages that are mapped.
    mapped: Option<(u64, u64)>,
    steps: Vec<Step>,
}

impl Draft {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below(most - least + 1)
    }

    /// True once in `many` times.
    fn one_in(&mut self, many: u64) -> bool {
        self.random.below(many) == 0
    }

    fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE_BYTES)
    }

    fn open(&mut self, descriptor: usize) {
        self.open[descriptor] = true;
        self.steps.push(Step::Open { descriptor });
    }

    /// A descriptor, mostly one that is open.
    fn descriptor(&mut self) -> usize {
        let descriptor = self.random.below(DESCRIPTORS as u64) as usize;
        if !self.open[descriptor] {
            if !self.one_in(3) {
                return 0;
            }
            self.open(descriptor);
        }
        descriptor
    }

    /// A place in the file: at the start, at a page, anywhere, rarely beyond the end.
    fn offset(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1 => self.random.below(self.bytes + 1),
            2 if self.one_in(4) => self.bytes + self.random.below(10_000),
            _ => self.random.below(self.pages()) * PAGE_BYTES,
        }
    }

    fn size(&mut self) -> u64 {
        let bytes = pick(&mut self.random, &READ_BYTES);
        if self.one_in(6) {
            bytes + self.random.below(3 * PAGE_BYTES)
        } else {
            bytes
        }
    }

    fn read(&mut self, descriptor: usize, offset_bytes: u64, bytes: u64) {
        self.steps.push(Step::Read {
            descriptor,
            offset_bytes,
            bytes,
        });
    }

    /// Some steps with one intention.
    fn phase(&mut self) {
        match self.random.below(16) {
            0..=2 => self.sequential(),
            3 => self.strided(),
            4 => self.backward(),
            5 | 6 => self.interleaved(),
            7 => self.scattered(),
            8 => self.mixed(),
            9 | 10 => self.mapped_run(),
            11 => self.mapped_scattered(),
            12 => self.advice(),
            13 => self.forced(),
            14 => self.dropped(),
            _ => self.reopened(),
        }
    }

    fn sequential(&mut self) {
        let descriptor = self.descriptor();
        let (offset_bytes, bytes) = (self.offset(), self.size());
        let by_position = self.one_in(2);
        if by_position {
            self.steps.push(Step::Seek {
                descriptor,
                offset_bytes,
            });
        }
        for round in 0..self.between(2, 24) {
            if by_position {
                self.steps.push(Step::ReadOn { descriptor, bytes });
            } else {
                self.read(descriptor, offset_bytes + round * bytes, bytes);
            }
        }
    }

    fn strided(&mut self) {
        let descriptor = self.descriptor();
        let (offset, bytes) = (self.offset(), self.size());
        let stride = bytes + self.between(1, 12) * PAGE_BYTES;
        for round in 0..self.between(2, 16) {
            self.read(descriptor, offset + round * stride, bytes);
        }
    }

    fn backward(&mut self) {
        let descriptor = self.descriptor();
        let (offset, bytes) = (self.offset(), self.size());
        for round in 1..=self.between(2, 16) {
            self.read(descriptor, offset.saturating_sub(round * bytes), bytes);
        }
    }

    /// Streams in turn, over one descriptor or several.
    fn interleaved(&mut self) {
        let streams = self.between(2, 3) as usize;
        let shared = self.one_in(2);
        let first = self.descriptor();
        let mut places = Vec::new();
        for _ in 0..streams {
            let descriptor = if shared { first } else { self.descriptor() };
            places.push((descriptor, self.offset(), self.size().min(131_072)));
        }
        for round in 0..self.between(3, 24) {
            for (descriptor, offset, bytes) in &places {
                self.read(*descriptor, offset + round * bytes, *bytes);
            }
        }
    }

    fn scattered(&mut self) {
        let descriptor = self.descriptor();
        for _ in 0..self.between(2, 16) {
            let (offset, bytes) = (self.offset(), self.size());
            self.read(descriptor, offset, bytes);
        }
    }

    fn mixed(&mut self) {
        let descriptor = self.descriptor();
        let mut offset = self.offset();
        for _ in 0..self.between(2, 16) {
            let bytes = self.size();
            self.read(descriptor, offset, bytes);
            offset += bytes;
            if self.one_in(4) {
                offset = self.offset();
            } else if self.one_in(4) {
                offset += self.between(1, 5) * 1000;
            }
        }
    }

    fn map(&mut self) {
        let descriptor = self.descriptor();
        let start = if self.one_in(2) {
            0
        } else {
            self.random.below(self.pages())
        };
        let left = self.pages() - start;
        let pages = match self.random.below(4) {
            0 => self.between(1, left),
            1 => left + self.random.below(20),
            _ => left,
        };
        let slot = match self.random.below(3) {
            0 => self.random.below(512),
            1 => start % 512,
            _ => 0,
        };
        let exec = self.one_in(5);
        self.mapped = Some((start, pages));
        self.steps.push(Step::Map {
            descriptor,
            start,
            pages,
            slot,
            exec,
        });
        if self.one_in(3) {
            self.map_advice();
        }
    }

    fn map_advice(&mut self) {
        let all = [MapAdvice::Normal, MapAdvice::Sequential, MapAdvice::Random];
        let advice = pick(&mut self.random, &all);
        self.steps.push(Step::MapAdvise { advice });
    }

    /// The mapping, made when there is none.
    fn mapping(&mut self) -> (u64, u64) {
        if self.mapped.is_none() || self.one_in(3) {
            self.map();
        }
        self.mapped.unwrap_or((0, 1))
    }

    /// Page after page through a mapping, forward or backward.
    fn mapped_run(&mut self) {
        let (start, pages) = self.mapping();
        let pages = pages.min(self.pages() - start);
        let mut page = start + self.random.below(pages);
        let step = pick(&mut self.random, &[1, 1, 1, 2, 5, 16, 17]);
        let forward = !self.one_in(4);
        for _ in 0..self.between(2, 30) {
            self.steps.push(Step::Touch { page });
            let next = if forward {
                page.checked_add(step)
            } else {
                page.checked_sub(step)
            };
            let inside = next.filter(|next| (start..start + pages).contains(next));
            let Some(next) = inside else { break };
            page = next;
        }
    }

    /// Here and there through a mapping; at times often enough for the kernel to stop reading
    /// around (MMAP_LOTSAMISS).
    fn mapped_scattered(&mut self) {
        let (start, pages) = self.mapping();
        let pages = pages.min(self.pages() - start);
        if self.one_in(4) {
            self.steps.push(Step::MapWillNeed {
                start: start + self.random.below(pages),
                pages: 1 + self.random.below(pages),
            });
        }
        let rounds = if self.one_in(6) {
            self.between(100, 250)
        } else {
            self.between(2, 20)
        };
        for _ in 0..rounds {
            let page = start + self.random.below(pages);
            self.steps.push(Step::Touch { page });
        }
        if self.one_in(3) {
            self.mapped = None;
            self.steps.push(Step::Unmap);
        } else if self.one_in(3) {
            self.map_advice();
        }
    }

    fn advice(&mut self) {
        let descriptor = self.descriptor();
        let all = [Advice::Normal, Advice::Sequential, Advice::Random];
        let advice = pick(&mut self.random, &all);
        self.steps.push(Step::Advise { descriptor, advice });
        self.phase_after_advice();
    }

    fn phase_after_advice(&mut self) {
        match self.random.below(3) {
            0 => self.sequential(),
            1 => self.scattered(),
            _ => self.mixed(),
        }
    }

    fn forced(&mut self) {
        let descriptor = self.descriptor();
        let (offset_bytes, bytes) = (self.offset(), self.size());
        let step = if self.one_in(2) {
            Step::WillNeed {
                descriptor,
                offset_bytes,
                bytes,
            }
        } else {
            Step::Readahead {
                descriptor,
                offset_bytes,
                bytes,
            }
        };
        self.steps.push(step);
        self.phase_after_advice();
    }

    fn dropped(&mut self) {
        let descriptor = self.descriptor();
        let (offset_bytes, bytes) = (self.offset(), self.size());
        self.steps.push(Step::DontNeed {
            descriptor,
            offset_bytes,
            bytes,
        });
        self.phase_after_advice();
    }

    fn reopened(&mut self) {
        let descriptor = self.random.below(DESCRIPTORS as u64) as usize;
        self.open(descriptor);
        self.sequential();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_determine_a_program() {
        assert_eq!(generate(7, 3), generate(7, 3));
        assert_ne!(generate(7, 3).steps, generate(7, 4).steps);
        assert_ne!(generate(7, 3).steps, generate(8, 3).steps);
    }

    #[test]
    fn a_thousand_programs_take_every_kind_of_step() {
        let programs: Vec<Program> = (0..1000).map(|number| generate(1, number)).collect();
        let has = |wanted: fn(&Step) -> bool| {
            let with = programs.iter().filter(|p| p.steps.iter().any(wanted));
            with.count()
        };
        let kinds: [fn(&Step) -> bool; 13] = [
            |s| matches!(s, Step::Open { descriptor } if *descriptor > 0),
            |s| matches!(s, Step::Read { .. }),
            |s| matches!(s, Step::ReadOn { .. }),
            |s| matches!(s, Step::Seek { .. }),
            |s| matches!(s, Step::Advise { .. }),
            |s| matches!(s, Step::WillNeed { .. }),
            |s| matches!(s, Step::Readahead { .. }),
            |s| matches!(s, Step::DontNeed { .. }),
            |s| matches!(s, Step::Map { exec: true, .. }),
            |s| matches!(s, Step::Unmap),
            |s| matches!(s, Step::Touch { .. }),
            |s| matches!(s, Step::MapAdvise { .. }),
            |s| matches!(s, Step::MapWillNeed { .. }),
        ];
        for (number, kind) in kinds.into_iter().enumerate() {
            assert!(has(kind) > 20, "kind {number}: {} programs", has(kind));
        }
        for file in 0..FILE_BYTES.len() {
            assert!(
                programs.iter().any(|program| program.file == file),
                "{file}"
            );
        }
    }

    #[test]
    fn a_touch_is_within_the_file() {
        for number in 0..500 {
            let program = generate(3, number);
            let pages = program.file_bytes().div_ceil(PAGE_BYTES);
            for step in &program.steps {
                if let Step::Touch { page } = step {
                    assert!(*page < pages, "program {number}: {step}");
                }
            }
        }
    }
}
