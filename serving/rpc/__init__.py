"""Where protobuf and gRPC end: conversion, validation, status, boundary."""
