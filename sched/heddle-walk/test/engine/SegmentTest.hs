-- |
-- Module      : SegmentTest
-- Description : Who continues whose output, at moments that a walk seldom meets
-- Stability   : test
module SegmentTest (tests) where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as ByteString
import Foreign.Ptr (castPtr)
import Heddle.Prim.Exception (bracket)
import Heddle.Walk.Internal.Cursor (CursorPtr, freeCursor, newCursor, putRawBytes)
import Heddle.Walk.Internal.Output
import System.Posix.IO (closeFd, handleToFd)
import Test.Tasty
import Test.Tasty.HUnit
import Walks

tests :: TestTree
tests =
  testGroup
    "segments"
    [ testCase "who lent its buffer and takes up the parked segment takes another buffer" lentBuffer
    ]

-- In post-order a child ends when the rest of its parent has been stolen, but has not begun:
-- the thief gets the child's segment and buffer. It ends, too, before the child's worker
-- looks whether anything is left of the parent, and so it is this one that visits the
-- parent, after what the thief wrote.
lentBuffer :: IO ()
lentBuffer = do
  (text, ()) <- toFile $ \h -> bracket (handleToFd h) closeFd $ \fd ->
    bracket newCursor freeCursor $ \c -> bracket newCursor freeCursor $ \c' -> do
      output <- newOutput (fromIntegral fd) (-1) True 4096 65536
      worker <- newRopeWriter output c
      thief <- newRopeWriter output c'
      rest <- reserveNext worker
      append c "child, "
      endTask worker rest
      usedUp <- resumeStolen thief rest
      usedUp @?= False
      append c' "rest, "
      dropReserve thief rest
      parked <- parkSegment thief
      takeSegment worker parked
      append c "parent"
      finishPort worker
  text @?= Char8.pack "child, rest, parent"

append :: CursorPtr -> String -> IO ()
append c text = do
  beginRecord c
  ByteString.unsafeUseAsCStringLen (Char8.pack text :: ByteString) $ \(p, n) ->
    void (putRawBytes c (castPtr p) n)
