// Programs of Metall over Holdfast: change the includes to this one, and add one alias:
//
//     namespace metall = holdfast::compat::metall;
//
// A data store is then a Holdfast heap, a directory that `holdfast` can open; a crash leaves it as the last flush(),
// snapshot() or destructor left it. Calls are as Metall's documentation says, except for docs/porting.md. Nothing is
// [[nodiscard]]: the programs were not written for it.
#pragma once

#include <holdfast/compat/metall/containers.hpp>
#include <holdfast/compat/metall/logger.hpp>
#include <holdfast/compat/metall/manager.hpp>
#include <holdfast/compat/metall/object_attributes.hpp>
#include <holdfast/compat/metall/utility.hpp>
