-- Nothing here breaks the types or the purity of Safe Haskell: 'runDet' is pure because every branch has its own type,
-- which nominal roles keep 'Data.Coerce.coerce' from changing, and effects need a 'World', which 'runDetIO' alone gives.
{-# LANGUAGE Trustworthy #-}

-- |
-- Module      : Heddle.Rendezvous
-- Description : Deterministic multi-way rendezvous
-- Stability   : stable
--
-- Branches that run in parallel and communicate by channels only. A channel has one writer
-- and any number of readers, and a value passes when all of them have come. So a program
-- has one result, whatever the schedule and the number of cores; and if it deadlocks, it
-- does so every time, in the same place, with a report that names the branches and channels.
--
-- > squares :: [Int]
-- > squares = runDet $ do
-- >   numbers <- newChan "numbers"
-- >   fst <$> par
-- >     ( (,)
-- >         <$> branch (inp numbers) (\i -> replicateM 10 ((^ 2) <$> recv i))
-- >         <*> branch (out numbers) (\o -> mapM_ (send o) [1 .. 10])
-- >     )
--
-- The members of a channel are the branches that were granted an end of it. A branch that ends
-- leaves its channels, so no branch waits for it: a writer without readers goes on, and a
-- reader whose writer has ended gets 'WriterEnded'. A branch that throws poisons its channels
-- permanently.
--
-- 'Chan' and 'newChan' are also names of "Control.Concurrent". A module that needs both imports that with a list of names
-- (@import Control.Concurrent (forkIO)@), or this one qualified: @import Heddle.Rendezvous qualified as Rendezvous@.
--
-- A branch written as a lambda needs no annotation where the grant's type is known: GHC reads 'Given' off it. A branch
-- that is a function with a name of its own needs a signature with the ends' types, as in
-- @squarer :: In t Int -> Out t Int -> Det t ()@, since the grant does not follow from what is given for it. The type
-- of a channel's elements can be given where it is made: @newChan \@_ \@Int \"c\"@.
--
-- Cost: about 20 ns for each member of a step; no thread is woken.
-- Owner: a run owns its branches and channels; the type @s@ keeps each end in its branch.
module Heddle.Rendezvous
  ( -- * Runs
    Det,
    runDet,

    -- * Channels
    Chan,
    newChan,
    Out,
    send,
    sendLazy,
    In,
    recv,

    -- * Branches
    par,
    Branches,
    branch,

    -- ** Granting
    Grant (Given),
    out,
    inp,
    Writing,
    Reading,

    -- * Exceptions
    throwDet,
    tryDet,
    -- | Each exception of this package, 'Deadlock' and 'BlockedInIO' included, can be caught by
    -- its own type and by the root. 'tryDet' meets 'Poisoned', 'WriterEnded', 'DuplicateWriter',
    -- 'DuplicateWorld' and 'BlockedInIO'; a run throws 'Uncaught' and 'Deadlock'.
    RendezvousException (..),
    WriterEnded (..),
    Poisoned (..),
    DuplicateWriter (..),
    DuplicateWorld (..),
    Uncaught (..),

    -- * Deadlocks

    -- | A run throws one as soon as no branch can go on, and never while one still can.
    Deadlock (..),
    Wait (..),
    Operation (..),

    -- * Effects
    runDetIO,
    World,
    io,
    ioLazy,
    BlockedInIO (..),

    -- * Searching
    Closed (..),
    leftmost,
  )
where

import Heddle.Rendezvous.Internal.Branches
import Heddle.Rendezvous.Internal.Ends
import Heddle.Rendezvous.Internal.Exception
import Heddle.Rendezvous.Internal.Report
import Heddle.Rendezvous.Internal.Run
import Heddle.Rendezvous.Internal.Types
