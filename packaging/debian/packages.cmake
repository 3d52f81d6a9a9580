# The Debian packages, made by CPack from the installed components: libholdfast0.1, libholdfast-dev, holdfast,
# holdfast-lmdb and, where HOLDFAST_BUILD_PYTHON is on, python3-holdfast. scripts/debian.sh builds them.
find_program(GZIP_PROGRAM gzip)
if(NOT GZIP_PROGRAM)
    return() # not a machine that makes packages
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Holdfast authors <holdfast@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "persistent heap in memory-mapped files")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE
)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL library development tools store)
set(debian ${PROJECT_SOURCE_DIR}/packaging/debian)
set(library libholdfast${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(synopsis "${synopsis}")
set(same_version "(= ${PROJECT_VERSION})")

# hf_debian_package(component name section depends text): the files of documentation that every package has.
function(hf_debian_package component name section depends text)
    string(TOUPPER ${component} key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_DESCRIPTION "${text}" PARENT_SCOPE)
    set(documents ${CMAKE_INSTALL_DATADIR}/doc/${name})
    install(FILES ${debian}/copyright ${CMAKE_BINARY_DIR}/package/changelog.gz DESTINATION ${documents}
            COMPONENT ${component} EXCLUDE_FROM_ALL
    )
    file(READ ${debian}/lintian-overrides overrides)
    string(REPLACE "PACKAGE" ${name} overrides "${overrides}")
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/package/${name}.overrides CONTENT "${overrides}")
    install(FILES ${CMAKE_BINARY_DIR}/package/${name}.overrides RENAME ${name}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT ${component} EXCLUDE_FROM_ALL
    )
endfunction()
execute_process(
    COMMAND ${GZIP_PROGRAM} --best --no-name --stdout ${debian}/changelog
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/package/changelog.gz COMMAND_ERROR_IS_FATAL ANY
)
execute_process(
    COMMAND ${GZIP_PROGRAM} --best --no-name --stdout ${debian}/holdfast.1
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/package/holdfast.1.gz COMMAND_ERROR_IS_FATAL ANY
)
install(FILES ${CMAKE_BINARY_DIR}/package/holdfast.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)

hf_debian_package(
    library ${library} libs ""
    "${synopsis}This package has the library that programs in C++ and C are linked with."
)
hf_debian_package(
    development libholdfast-dev libdevel "${library} ${same_version}, libboost1.81-dev | libboost-dev (>= 1.74)"
    "${synopsis}This package has the headers, the static library, and CMake files."
)
hf_debian_package(
    tools holdfast utils "${library} ${same_version}"
    "${synopsis}This package has the program that looks into heaps, and a malloc for\nLD_PRELOAD on a heap."
)
hf_debian_package(
    store holdfast-lmdb database ""
    "${synopsis}This package has the key-value store with LMDB's interface: a liblmdb.so.0 in a\ndirectory of its own,\
 headers, and tools with the command lines of lmdb-utils."
)
set(CPACK_DEBIAN_STORE_PACKAGE_RECOMMENDS "libholdfast-dev ${same_version}") # for its headers in C++
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${debian}/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
if(HOLDFAST_BUILD_PYTHON)
    list(APPEND CPACK_COMPONENTS_ALL python)
    hf_debian_package(
        python python3-holdfast python "python3 (>= 3.11), python3 (<< 3.12), python3-numpy"
        "${synopsis}This package keeps dicts, lists and arrays of numpy in a heap, and has a\nstore of bytes for\
 several processes."
    )
    # What the interpreter has compiled belongs to no package: it is made, and removed, by these.
    set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${debian}/python/postinst ${debian}/python/prerm)
endif()
include(CPack)
