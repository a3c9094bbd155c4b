//! The page docs/writing-a-backend.md is its example, word for word.

#[test]
fn the_blocks_of_the_page_are_the_example() {
    let page = include_str!("../../docs/writing-a-backend.md");
    let blocks: Vec<&str> =
        page.split("\n```rust\n").skip(1).map(|rest| rest.split("\n```\n").next().unwrap_or_default()).collect();
    let example = include_str!("table.rs").trim_end();
    // Line by line, so that a difference is shown where it is.
    let text = blocks.join("\n\n");
    for (at, (on_page, in_file)) in text.lines().zip(example.lines()).enumerate() {
        assert_eq!(on_page, in_file, "line {} of tests/table.rs", at + 1);
    }
    assert_eq!(text.lines().count(), example.lines().count());
}
