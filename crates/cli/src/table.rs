// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables without lines, as wide as their content.

use comfy_table::{CellAlignment, Table, presets};

/// A table with these names of columns.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.to_vec());
    table
}

/// Its text. Columns are aligned on the right, for comparing numbers; those named, on the left.
pub fn finished(mut table: Table, left: &[usize]) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        let is_left = left.contains(&index);
        let side = if is_left {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        column.set_cell_alignment(side);
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}
