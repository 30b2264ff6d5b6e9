-- | Places for values of different types.
module SlotsTest (tests) where

import Data.IORef
import Heddle.Json.Internal.Slots
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "slots"
    [ testCase "a type is forgotten and known again" $ do
        unsafeThing (anything 'x') @?= 'x'
        (unsafeThing (anything (succ :: Int -> Int)) :: Int -> Int) 4 @?= 5,
      testCase "each place has its own type" $ do
        slots <- newSlots 3
        fillSlot slots 0 (anything 'x')
        fillSlot slots 2 (anything [1, 2 :: Int])
        mapM (isFull slots) [0, 1, 2] >>= (@?= [True, False, True])
        unsafeSlot slots 0 (pure '-') pure >>= (@?= 'x')
        unsafeSlot slots 1 (pure '-') pure >>= (@?= '-')
        unsafeSlot slots 2 (pure []) pure >>= (@?= [1, 2 :: Int]),
      testCase "the last value counts, also one of another type" $ do
        slots <- newSlots 1
        fillSlot slots 0 (anything 'x')
        fillSlot slots 0 (anything (7 :: Int))
        unsafeSlot slots 0 (pure 0) pure >>= (@?= (7 :: Int)),
      testCase "only one of the two ways is gone" $ do
        slots <- newSlots 1
        seen <- newIORef ""
        let go = unsafeSlot slots 0 (modifyIORef seen ('e' :)) (\c -> modifyIORef seen (c :))
        go
        fillSlot slots 0 (anything 'f')
        go
        readIORef seen >>= (@?= "fe")
    ]
