// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program built from many small C files that share headers, as a kernel is. Each file takes a
//! compiler, an assembler and a shell, and every header is opened again.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

const SOURCES: usize = 32;
const HEADERS: usize = 64;
/// Number of headers that each source includes.
const HEADERS_PER_SOURCE: usize = 24;
const FUNCTIONS_PER_HEADER: usize = 12;

/// Nothing is kept of it, so that each build is the whole.
const MAKEFILE: &str = "\
SOURCES := $(wildcard *.c)
all: $(SOURCES:.c=.o)
%.o: %.c
\t@gcc -O1 -pipe -Wall -c $< -o /dev/null
";

/// The missing package, where it can't be built.
pub const MISSING: &str = "gcc or make is not installed: they come with packages of these names";

/// Makes the sources up.
pub fn make_up(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    fs::write(directory.join("Makefile"), MAKEFILE)?;
    for header in 0..HEADERS {
        let mut text = format!("#ifndef H{header}\n#define H{header}\n");
        for function in 0..FUNCTIONS_PER_HEADER {
            // Text always takes more of it.
            let _ = writeln!(
                text,
                "struct s{header}_{function} {{ unsigned long a, b[{function} + 1]; }};\n\
                 static inline unsigned long f{header}_{function}(struct s{header}_{function} *s)\n\
                 {{\n\treturn s->a * {function} + s->b[{function}] + {header};\n}}"
            );
        }
        text.push_str("#endif\n");
        fs::write(directory.join(format!("h{header}.h")), text)?;
    }
    for source in 0..SOURCES {
        let mut text = "#include <stdio.h>\n#include <stdlib.h>\n".to_owned();
        let headers = (0..HEADERS_PER_SOURCE).map(|n| (source * 7 + n * 5) % HEADERS);
        for header in headers.clone() {
            let _ = writeln!(text, "#include \"h{header}.h\"");
        }
        for header in headers {
            let _ = writeln!(
                text,
                "unsigned long g{source}_{header}(struct s{header}_1 *s)\n\
                 {{\n\tprintf(\"%lu\\n\", s->a);\n\treturn f{header}_1(s);\n}}"
            );
        }
        fs::write(directory.join(format!("c{source}.c")), text)?;
    }
    Ok(())
}
