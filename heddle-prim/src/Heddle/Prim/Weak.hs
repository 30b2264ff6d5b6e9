-- |
-- Module      : Heddle.Prim.Weak
-- Description : Noticing that nobody needs something any more
-- Stability   : stable
--
-- A token that its users hold. When the collector finds that no thread can use the token any more, an action runs.
--
-- Cost: a token is 4 words and a weak pointer; each major collection looks at it.
-- Owner: those who hold the token.
module Heddle.Prim.Weak
  ( Token,
    newToken,
    use,
  )
where

import Control.Monad (void)
import Data.IORef (IORef, mkWeakIORef, newIORef, writeIORef)

-- | Alive as long as someone can still reach a 'use' of it.
newtype Token = Token (IORef ())

-- | A token, and what to do when nobody holds it: in a thread of its own, some time after a collection, or never, if the
-- program ends before.
--
-- [Cost]: 4 words and a weak pointer.
-- [Blocks]: never.
newToken :: IO () -> IO Token
newToken end = do
  cell <- newIORef ()
  void (mkWeakIORef cell end)
  pure (Token cell)

-- | Keep the token alive until here. (A write, because a read whose result is not needed is optimised away.)
--
-- [Cost]: a store.
-- [Blocks]: never.
use :: Token -> IO ()
use (Token cell) = writeIORef cell ()
