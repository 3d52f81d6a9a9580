// Forces the functions on the path of every durable call inline. Compilers leave them out of line for their size. Each
// value that passes between them is then a store, and stores wait for the fence of the record before.
#pragma once

#define HF_HOT [[gnu::always_inline]] inline
