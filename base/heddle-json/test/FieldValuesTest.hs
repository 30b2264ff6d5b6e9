-- | The values of a record's fields.
module FieldValuesTest (tests) where

import Data.IORef
import Heddle.Json.Internal.FieldValues
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "field values"
    [ testCase "a type is forgotten and known again" $ do
        unsafeThing (anything 'x') @?= 'x'
        (unsafeThing (anything (succ :: Int -> Int)) :: Int -> Int) 4 @?= 5,
      testCase "each entry has its own type" $ do
        entries <- newFieldValues 3
        putFieldValue entries 0 (anything 'x')
        putFieldValue entries 2 (anything [1, 2 :: Int])
        mapM (hasFieldValue entries) [0, 1, 2] >>= (@?= [True, False, True])
        unsafeFieldValue entries 0 (pure '-') pure >>= (@?= 'x')
        unsafeFieldValue entries 1 (pure '-') pure >>= (@?= '-')
        unsafeFieldValue entries 2 (pure []) pure >>= (@?= [1, 2 :: Int]),
      testCase "the last value counts, also one of another type" $ do
        entries <- newFieldValues 1
        putFieldValue entries 0 (anything 'x')
        putFieldValue entries 0 (anything (7 :: Int))
        unsafeFieldValue entries 0 (pure 0) pure >>= (@?= (7 :: Int)),
      testCase "only one of the two ways is gone" $ do
        entries <- newFieldValues 1
        seen <- newIORef ""
        let go = unsafeFieldValue entries 0 (modifyIORef seen ('e' :)) (\c -> modifyIORef seen (c :))
        go
        putFieldValue entries 0 (anything 'f')
        go
        readIORef seen >>= (@?= "fe")
    ]
