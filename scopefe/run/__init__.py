"""How a spec is carried out: compiling, executing, engines, store, progress."""
