# One target a layer, and the libraries that unite them. Each source file is compiled once, as position-independent code
# that finds its thread-local storage without a call: the same objects make the static library, the shared one,
# libholdfast-malloc.so (whose look-ups must not allocate) and what tests link.
#   hf_<layer>          links the layers below; what tests of the layer link
#   hf_<layer>_objects  its object files, for the united libraries
#   holdfast::holdfast  all layers, public headers only: what programs link, ours and others'
set(HOLDFAST_SOURCE_ROOT ${PROJECT_SOURCE_DIR}/src)
set(HOLDFAST_INCLUDE_ROOT ${PROJECT_SOURCE_DIR}/include) # the public headers
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    # Called where the processor has the instructions. Such a file is in no unity build.
    set_source_files_properties(${HOLDFAST_SOURCE_ROOT}/base/checksum_avx2.cpp PROPERTIES COMPILE_OPTIONS -mavx2)
endif()
# In an object file of its own: liblmdb.so takes it, and nothing else of base/.
set_source_files_properties(${HOLDFAST_SOURCE_ROOT}/base/checksum.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

function(hf_add_layers)
    set(below hf_flags Threads::Threads Boost::headers)
    set(objects "")
    foreach(layer IN LISTS ARGN)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${HOLDFAST_SOURCE_ROOT}/${layer}/*.cpp)
        list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")
        hf_put_mutants_in(sources)
        set(include_directories ${HOLDFAST_SOURCE_ROOT})
        if(layer MATCHES "^(api|c_api|index)$") # the lint keeps them out of the layers below
            list(APPEND include_directories ${HOLDFAST_INCLUDE_ROOT})
        endif()
        add_library(hf_${layer}_objects OBJECT ${sources})
        set_target_properties(hf_${layer}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
        target_compile_options(hf_${layer}_objects PRIVATE -ftls-model=initial-exec -fno-semantic-interposition)
        target_link_libraries(hf_${layer}_objects PUBLIC ${below})
        target_include_directories(hf_${layer}_objects PUBLIC ${include_directories})

        add_library(hf_${layer} STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hf_${layer}_objects>)
        target_link_libraries(hf_${layer} PUBLIC ${below})
        target_include_directories(hf_${layer} PUBLIC ${include_directories})
        set(below hf_${layer})
        list(APPEND objects $<TARGET_OBJECTS:hf_${layer}_objects>)
        if(layer STREQUAL "heap")
            set(HOLDFAST_OBJECTS_BELOW_API ${objects} PARENT_SCOPE)
        endif()
    endforeach()
    set(HOLDFAST_OBJECTS ${objects} PARENT_SCOPE)
endfunction()

# holdfast_static and holdfast_shared, installed as holdfast::static and holdfast::shared; holdfast::holdfast is one of
# them, as BUILD_SHARED_LIBS says.
function(hf_add_library)
    add_library(holdfast_static STATIC ${HOLDFAST_OBJECTS})
    add_library(holdfast_shared SHARED ${HOLDFAST_OBJECTS})
    foreach(kind IN ITEMS static shared)
        add_library(holdfast::${kind} ALIAS holdfast_${kind})
        target_link_libraries(holdfast_${kind} PUBLIC Threads::Threads Boost::headers)
        target_include_directories(
            holdfast_${kind} PUBLIC $<BUILD_INTERFACE:${HOLDFAST_INCLUDE_ROOT}>
                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
        )
        target_compile_features(holdfast_${kind} PUBLIC cxx_std_20)
        set_target_properties(holdfast_${kind} PROPERTIES OUTPUT_NAME holdfast EXPORT_NAME ${kind} LINKER_LANGUAGE CXX)
    endforeach()
    # CMake links a program of C with the compiler of C, which does not know the C++ runtime.
    target_link_libraries(holdfast_static INTERFACE $<$<LINK_LANGUAGE:C>:stdc++>)
    # The C++ interface may change with a minor version, as the CMake package says too (SameMinorVersion).
    set(exports ${HOLDFAST_SOURCE_ROOT}/api/exports.map)
    set_target_properties(
        holdfast_shared PROPERTIES VERSION ${PROJECT_VERSION} LINK_DEPENDS ${exports}
                                   SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    )
    # Only what the public headers declare is visible. The link decides, so that the objects, which tests link with all
    # of the layers, are compiled once.
    target_link_options(holdfast_shared PRIVATE -Wl,--version-script=${exports})
    if(NOT HOLDFAST_SANITIZE)
        target_link_options(holdfast_shared PRIVATE -Wl,-z,defs)
    endif()
    if(BUILD_SHARED_LIBS)
        add_library(holdfast::holdfast ALIAS holdfast_shared)
    else()
        add_library(holdfast::holdfast ALIAS holdfast_static)
    endif()
    target_compile_definitions(hf_c_api_objects PRIVATE HOLDFAST_VERSION="${PROJECT_VERSION}")
endfunction()

# hf_add_program(name SOURCES ... [LIBRARIES ...]): a program of ours on the public headers alone (cli, examples,
# bench), in bin/.
function(hf_add_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE hf_flags ${arg_LIBRARIES} holdfast::holdfast)
    if(BUILD_SHARED_LIBS) # the shared library does not show the functions of fmt that it has
        if(NOT TARGET hf_fmt)
            add_library(hf_fmt STATIC EXCLUDE_FROM_ALL ${HOLDFAST_SOURCE_ROOT}/base/fmt.cpp)
            target_link_libraries(hf_fmt PRIVATE hf_flags)
            target_include_directories(hf_fmt PRIVATE ${HOLDFAST_SOURCE_ROOT})
        endif()
        target_link_libraries(${name} PRIVATE hf_fmt)
    endif()
    hf_hurry(${name})
endfunction()

# hf_hurry(target...): where mutants are compiled in, programs are for tests alone, which wait longer for the compiler
# than for them.
function(hf_hurry)
    if(HOLDFAST_MUTANTS)
        foreach(target IN LISTS ARGN)
            target_compile_options(${target} PRIVATE -O0)
        endforeach()
    endif()
endfunction()

# Adds every directory that has the given CMakeLists.txt. What they build is built by name alone.
function(hf_add_subdirectories pattern)
    file(GLOB lists CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${pattern})
    foreach(list IN LISTS lists)
        get_filename_component(directory ${list} DIRECTORY)
        add_subdirectory(${directory} EXCLUDE_FROM_ALL)
    endforeach()
endfunction()
