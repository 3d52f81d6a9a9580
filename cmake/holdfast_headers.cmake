# Headers of others, which take longer to compile than most of our files do, are compiled once for all targets with the
# same flags where HOLDFAST_COMPILED_HEADERS is on. ccache keeps what was compiled with them under the settings of the
# build presets; -fpch-preprocess is for it, too.

# hf_compile_headers(name [FLAGS ...] [DEFINITIONS ...] HEADERS ...)
function(hf_compile_headers name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FLAGS;DEFINITIONS;HEADERS")
    if(NOT HOLDFAST_COMPILED_HEADERS)
        return()
    endif()
    file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    target_link_libraries(${name} PRIVATE hf_flags Threads::Threads)
    target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
    target_compile_options(${name} PRIVATE ${arg_FLAGS} -fpch-preprocess)
    target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
    set_target_properties(${name} PROPERTIES DEFINITIONS_OF_HEADERS "${arg_DEFINITIONS}")
endfunction()

# hf_use_headers(headers target...): each target has the flags of the headers, and sources in C++ alone.
function(hf_use_headers headers)
    if(NOT TARGET ${headers})
        return()
    endif()
    get_target_property(definitions ${headers} DEFINITIONS_OF_HEADERS)
    foreach(target IN LISTS ARGN)
        target_compile_options(${target} PRIVATE -fpch-preprocess)
        target_compile_definitions(${target} PRIVATE ${definitions})
        target_precompile_headers(${target} REUSE_FROM ${headers})
    endforeach()
endfunction()
