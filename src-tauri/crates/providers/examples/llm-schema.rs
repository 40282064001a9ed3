//! Prints the JSON schema of model requests and results; `cargo xtask docs` writes it to docs/llm.schema.json.

fn main() {
    println!("{:#}", providers::schema());
}
