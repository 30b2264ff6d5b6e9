-- | What the tests share.
module Harness
  ( expectIOError,
    module Heddle.Testkit.Threads,
  )
where

import Control.Exception (try)
import Heddle.Prim.Errno (Errno, errnoOf)
import Heddle.Testkit.Threads
import Test.Tasty.HUnit (Assertion, assertEqual, assertFailure)

-- | Expect an 'IOException' with this errno.
expectIOError :: Errno -> IO a -> Assertion
expectIOError wanted body =
  try body >>= \case
    Left e -> assertEqual (show e) (Just wanted) (errnoOf e)
    Right _ -> assertFailure ("expected " ++ show wanted)
