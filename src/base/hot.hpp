// Forces the functions on the path of every durable call inline. Out of line, each value that passes between them is a
// store, and stores wait for the fence of the record before.
#pragma once

#define HF_HOT [[gnu::always_inline]] inline
