-- | The operations of "Heddle.Prim.Atomic", one function each, for @check_ordering.py@.
module Probe
  ( plainRead,
    acquireRead,
    atomicallyRead,
    plainWrite,
    releaseWrite,
    atomicallyWrite,
    publish,
    arrive,
  )
where

import Heddle.Prim.Atomic

plainRead, acquireRead, atomicallyRead :: Words -> IO Int
plainRead ws = readWord ws 1
{-# NOINLINE plainRead #-}
acquireRead ws = readAcquire ws 1
{-# NOINLINE acquireRead #-}
atomicallyRead ws = atomicRead ws 1
{-# NOINLINE atomicallyRead #-}

plainWrite, releaseWrite, atomicallyWrite :: Words -> Int -> IO ()
plainWrite ws = writeWord ws 1
{-# NOINLINE plainWrite #-}
releaseWrite ws = writeRelease ws 1
{-# NOINLINE releaseWrite #-}
atomicallyWrite ws = atomicWrite ws 1
{-# NOINLINE atomicallyWrite #-}

-- | Two writes whose order a release keeps: word 3, then word 2.
publish :: Words -> IO ()
publish ws = writeWord ws 3 7 >> writeRelease ws 2 8
{-# NOINLINE publish #-}

arrive :: Words -> IO Int
arrive ws = fetchAdd ws 1 (-1)
{-# NOINLINE arrive #-}
