//! Compiles `proto/` with protox, so that no `protoc` is needed.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = "../proto";
    let file = "trailtrap/v1/census.proto";
    println!("cargo:rerun-if-changed={root}/{file}");
    tonic_prost_build::configure().compile_fds(protox::compile([file], [root])?)?;
    Ok(())
}
