// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text output, word for word: the transcripts under `tests/cmd`.

#[test]
fn transcripts_hold() {
    trycmd::TestCases::new()
        .case("../../tests/cmd/*.md")
        .env("FOREREAD_STATE_DIR", "/nonexistent");
}
