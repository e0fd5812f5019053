//! Writes the code of the messages and of the service in the schema below the first folder into
//! the second. Reads the schema with protox, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut folders = std::env::args_os().skip(1);
    let (Some(schema), Some(code)) = (folders.next(), folders.next()) else {
        return Err("say where the schema is, and where to write its code".into());
    };
    let descriptors = protox::compile(["trailtrap/v1/census.proto"], [schema])?;
    tonic_prost_build::configure().out_dir(code).compile_fds(descriptors)?;
    Ok(())
}
