// What the files of interprocess_examples share.
#pragma once

#include <string>

#include <holdfast/compat/interprocess.hpp>

namespace bip = holdfast::compat::interprocess;

using segment_manager = bip::managed_mapped_file::segment_manager;
template <class T>
using allocator = bip::allocator<T, segment_manager>;

// The parts of interprocess_pointers.cpp.
void smart_pointers(const std::string& file);
void intrusive_containers(const std::string& file);
void locks(const std::string& file);
void locks_of_the_dead(const std::string& file);
void static_objects(const std::string& file);
