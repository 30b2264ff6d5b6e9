-- |
-- Module      : Heddle.Coroutine.Components
-- Description : Conditions on streams, branches, joins
-- Stability   : stable
--
-- Ready-made parts of pipelines, and what combines them: the components of "Coroutine
-- Pipelines" from "Parting and joining the stream" on. Many are named as functions of the
-- Prelude are, so import this module qualified.
--
-- > import Heddle.Coroutine
-- > import Heddle.Coroutine.Components qualified as C
-- >
-- > -- The lines of a file that contain these characters.
-- > grep :: String -> FilePath -> Generator Char IO ()
-- > grep wanted file =
-- >   void . toGenerator $
-- >     fromGenerator (C.readFile file)
-- >       =>= C.groupBy C.line
-- >       =>= C.ifThenElse (C.any (C.substring wanted)) (lift121 (++ "\n")) (fromIteratee C.suppress)
-- >       =>= C.concatenate
--
-- A splitter is a condition on a stream: what it sends left satisfies it. It says so item by
-- item, in sections: lines, occurrences of a word.
--
-- Any base monad will do. These are coroutines like others; there is nothing that you could
-- not write yourself.
--
-- Cost: some ten closures for an item that passes a component; what is held back, and for
-- how long, is said at each.
-- Owner: values; nothing is shared but what the base monad shares.
module Heddle.Coroutine.Components
  ( -- * Branches
    ifThenElse,
    ifThenElseBy,
    groupBy,

    -- * Conditions
    line,
    substring,

    -- ** Logic
    not,
    and,
    or,
    any,
    all,

    -- * Joins
    joinTransduced,
    Outcome (..),
    flipJoin,
    append,
    interleave,
    combine,
    zipMonoids,

    -- * Sources
    readFile,
    naturals,
    repeat,

    -- * Transducers and sinks
    toString,
    concatenate,
    suppress,
  )
where

import Control.Monad.Trans.Class (lift)
import Heddle.Coroutine.Internal.Joins
import Heddle.Coroutine.Internal.Plain (Generator, Iteratee, await, yield)
import Heddle.Coroutine.Internal.Splitters
import Heddle.Coroutine.Internal.Transducer (Transducer, andThen, lift121, liftStateless)
import Heddle.Prim.Exception (evaluate)
import System.IO (IOMode (..), hGetContents, hSetEncoding, mkTextEncoding, openFile)
import Prelude hiding (all, and, any, not, or, readFile, repeat)

-- | The characters of a file, as UTF-8, with U+FFFD for what is not; ends of lines as they
-- are. It is opened at the first one and closed after the last one, or when nobody refers to
-- the rest any more; @=>=@ goes to the end.
--
-- [Cost]: read by blocks, as far as asked for.
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: an @IOException@, if it cannot be opened or read.
readFile :: FilePath -> Generator Char IO ()
readFile file = do
  text <- lift $ do
    h <- openFile file ReadMode
    utf8 <- mkTextEncoding "UTF-8//TRANSLIT"
    hSetEncoding h utf8
    hGetContents h
  go text
  where
    -- It is read here, and nowhere else: never while somebody looks at a character.
    go text =
      lift (evaluate text) >>= \case
        [] -> pure ()
        c : rest -> yield c >> go rest

-- | 1, 2, 3 and so on; it never ends.
naturals :: Monad m => Generator Int m ()
naturals = go 1
  where
    go !n = yield n >> go (n + 1)

-- | This one, again and again; it never ends.
repeat :: Monad m => a -> Generator a m ()
repeat a = go
  where
    go = yield a >> go

-- | What 'show' makes of each.
toString :: (Show a, Monad m) => Transducer a String m ()
toString = lift121 show

-- | The items of each list.
concatenate :: Monad m => Transducer [a] a m ()
concatenate = liftStateless id

-- | It awaits values to the end, and does nothing about them. In print it awaits any type, so
-- it cannot know the end; @'Heddle.Coroutine.fromIteratee' suppress@ is as in print.
suppress :: Monad m => Iteratee (Maybe a) m ()
suppress = go
  where
    go = await `andThen` const go
